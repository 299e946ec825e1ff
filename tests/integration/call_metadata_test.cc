// What a call carries beside its message: ids, the server's version, traces, details of errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/grpcpp.h"
#include "stowage/v1/errors.pb.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/rpc.h"
#include "tests/support/certificates.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kTraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string ValueOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
                    const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

template <typename Detail>
std::optional<Detail> DetailOf(const grpc::Status& status) {
  v1::ErrorStatus error;
  if (!error.ParseFromString(status.error_details())) return std::nullopt;
  for (const google::protobuf::Any& any : error.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

v1::SolveRequest BadRequest() {
  v1::SolveRequest request = SmallSolveRequest();
  request.set_solver("rotter");
  request.mutable_chain()->mutable_stages(1)->set_saved_bytes(-1);
  return request;
}

class CallMetadata : public testing::Test {
 protected:
  grpc::Status Ask(const v1::SolveRequest& request, grpc::ClientContext* context) {
    v1::SolveResponse response;
    return remote_.Solve(request, &response, context);
  }

  ServerProcess server_;
  const Remote remote_{server_.address()};
};

TEST_F(CallMetadata, EveryAnswerHasTheRequestsIdAndTheServersVersion) {
  grpc::ClientContext succeeds;
  succeeds.AddMetadata("x-request-id", "job 17");
  EXPECT_TRUE(Ask(SmallSolveRequest(), &succeeds).ok());
  EXPECT_EQ(ValueOf(succeeds.GetServerInitialMetadata(), "x-request-id"), "job 17");
  EXPECT_NE(ValueOf(succeeds.GetServerInitialMetadata(), "stowage-version"), "");

  grpc::ClientContext fails;
  EXPECT_FALSE(Ask(BadRequest(), &fails).ok());
  const std::string id = ValueOf(fails.GetServerTrailingMetadata(), "x-request-id");
  EXPECT_NE(id, "");
  EXPECT_NE(ValueOf(fails.GetServerTrailingMetadata(), "stowage-version"), "");
  EXPECT_NE(server_.WaitForLogLine({"event=call", "id=" + id, "code=INVALID_ARGUMENT"}), "");

  grpc::ClientContext streams;
  streams.AddMetadata("x-request-id", "job 18");
  const auto stub = v1::Scheduler::NewStub(remote_.channel());
  const auto reader = stub->SolveStream(&streams, SmallSolveRequest());
  v1::SolveEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(ValueOf(streams.GetServerInitialMetadata(), "x-request-id"), "job 18");
}

// A call that ends without an answer ends with its first frame of headers. gRPC's clients take any
// other as the beginning of an answer, and repeat such a call no more, whatever their retry policy.
TEST_F(CallMetadata, ACallWithoutAnAnswerIsOneFrameOfHeaders) {
  RawGrpc client(server_.address());
  uint32_t stream = 1;
  const auto frames = [&](const char* method, const std::string& message) {
    client.Begin(stream, method);
    client.Send(stream, GrpcMessage(message, message.size()), kPatience);
    client.End(stream);
    std::string received = client.FramesUntilEnd(stream, kPatience);
    stream += 2;
    return received;
  };
  for (const char* method : {"Solve", "SolveStream", "Frontier", "Simulate", "Admit", "ListSolvers",
                             "ReportExecution"}) {
    EXPECT_EQ(frames(method, "\xff"), "H") << method;
  }
  EXPECT_EQ(frames("NoMethod", ""), "H");
  EXPECT_EQ(frames("Solve", BadRequest().SerializeAsString()), "H");
  EXPECT_EQ(frames("SolveStream", BadRequest().SerializeAsString()), "H");
  const std::string answer = frames("Solve", SmallSolveRequest().SerializeAsString());
  EXPECT_THAT(answer, testing::MatchesRegex("HD+H"));
}

// So that its operator finds it in the log.
TEST_F(CallMetadata, ErrorsOfTheCommandLineHaveTheRequestsId) {
  const ProgramResult result =
      RunProgram({Program("stowage"), "solve", "--server", server_.address(), "--chain",
                  ProfilePath("pipedream-vgg16-128-224"), "--memory", "50%", "--solver", "rotter"});
  EXPECT_EQ(result.exit_code, 1);
  const std::string line = server_.WaitForLogLine({"event=call", "code=INVALID_ARGUMENT"});
  const std::string id = stowage::ValueOf(line, "id=");
  EXPECT_NE(id, "");
  EXPECT_THAT(result.err, EndsWith(absl::StrCat(" (request ", id, ")\n")));
}

TEST_F(CallMetadata, ATraceGoesThroughTheLogAndBack) {
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kTraceParent);
  EXPECT_TRUE(Ask(SmallSolveRequest(), &context).ok());
  EXPECT_EQ(ValueOf(context.GetServerTrailingMetadata(), "traceparent"), kTraceParent);
  EXPECT_NE(server_.WaitForLogLine({"event=call", std::string("trace=") + kTrace}), "");

  grpc::ClientContext invalid;
  invalid.AddMetadata("traceparent", "00-nonsense");
  EXPECT_TRUE(Ask(SmallSolveRequest(), &invalid).ok());
  EXPECT_EQ(ValueOf(invalid.GetServerTrailingMetadata(), "traceparent"), "");
}

TEST_F(CallMetadata, TheCommandLineIsPartOfItsEnvironmentsTrace) {
  const ProgramResult result =
      RunProgram({"/usr/bin/env", absl::StrCat("TRACEPARENT=", kTraceParent), Program("stowage"),
                  "solve", "--server", server_.address(), "--chain",
                  ProfilePath("pipedream-vgg16-128-224"), "--memory", "50%"});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_NE(server_.WaitForLogLine({"event=call", std::string("trace=") + kTrace}), "");
}

// A client that is told nothing else takes 8 KiB of trailers, and fails the call where there are
// more.
TEST_F(CallMetadata, TheLargestErrorIsWithinWhatClientsTake) {
  v1::SolveRequest request = BadRequest();
  while (request.chain().stages_size() < 1000) {
    *request.mutable_chain()->add_stages() = request.chain().stages(1);
  }
  std::string name;
  while (name.size() < 2000) name += "\xc3\xa9";  // each byte of it is escaped
  request.set_solver(name);
  grpc::ClientContext context;
  const std::string id(128, '%');
  context.AddMetadata("x-request-id", id);
  context.AddMetadata("traceparent", kTraceParent);
  const grpc::Status status = Ask(request, &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << Text(status);
  EXPECT_EQ(ValueOf(context.GetServerTrailingMetadata(), "x-request-id"), id);
  EXPECT_TRUE(DetailOf<v1::Violations>(status).has_value());
  EXPECT_TRUE(DetailOf<google::rpc::BadRequest>(status).has_value());
}

TEST_F(CallMetadata, ErrorsHaveTheDetailsThatGenericClientsRead) {
  grpc::ClientContext context;
  const grpc::Status status = Ask(BadRequest(), &context);
  const auto bad = DetailOf<google::rpc::BadRequest>(status);
  const auto ours = DetailOf<v1::Violations>(status);
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  ASSERT_TRUE(bad.has_value() && ours.has_value() && info.has_value());
  ASSERT_EQ(bad->field_violations_size(), ours->violations_size());
  for (int i = 0; i < ours->violations_size(); ++i) {
    EXPECT_EQ(bad->field_violations(i).field(), ours->violations(i).field());
    EXPECT_EQ(bad->field_violations(i).description(), ours->violations(i).problem());
  }
  EXPECT_EQ(info->reason(), "INVALID");
  EXPECT_EQ(info->domain(), "stowage");
  EXPECT_FALSE(DetailOf<google::rpc::RetryInfo>(status).has_value());
}

TEST(ErrorDetails, SayWhenToTryAgain) {
  ServerProcess server({std::begin(kOneAtATime), std::end(kOneAtATime)});
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  v1::SolveResponse response;
  const grpc::Status status = remote.Solve(SmallSolveRequest(), &response);
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  ASSERT_TRUE(retry.has_value()) << Text(status);
  EXPECT_EQ(retry->retry_delay().seconds(), 1);
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status)->reason(), "QUEUE_FULL");
}

// As a client in another language sees it, with a library that knows nothing of this service.
ProgramResult AskGenerically(const ServerProcess& server, const v1::SolveRequest& request,
                             const std::vector<std::string>& flags = {}) {
  std::vector<std::string> command = {
      "/usr/bin/env", absl::StrCat("PYTHONPATH=", STOWAGE_ROOT, "/.cache/python"),
      "/usr/bin/python3", STOWAGE_ROOT "/client/python/examples/error_details.py"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {server.address(), "Solve"});
  return RunProgram(command, request.SerializeAsString());
}

TEST(ErrorDetails, AreReadByAGenericClient) {
  ServerProcess server({std::begin(kOneAtATime), std::end(kOneAtATime)});
  const ProgramResult good = AskGenerically(server, SmallSolveRequest());
  ASSERT_EQ(good.exit_code, 0) << good.out << good.err
                               << "where grpc is missing: deploy/setup.sh test";
  const ProgramResult bad = AskGenerically(server, BadRequest());
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, HasSubstr("INVALID_ARGUMENT: "));
  EXPECT_THAT(bad.out, HasSubstr("\nfield chain.stages[1].saved_bytes: is -1; "));
  EXPECT_THAT(bad.out, HasSubstr("\nfield solver: "));
  EXPECT_THAT(bad.out, HasSubstr("\nreason stowage/INVALID\n"));
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  const ProgramResult refused = AskGenerically(server, SmallSolveRequest());
  EXPECT_THAT(refused.out, HasSubstr("RESOURCE_EXHAUSTED: the queue is full"));
  EXPECT_THAT(refused.out, HasSubstr("\nreason stowage/QUEUE_FULL\nretry after 1000 ms\n"));
}

TEST(ErrorDetails, AreReadByAGenericClientOverTls) {
  Office office;
  const Pair authority = office.Authority("authority");
  ServerProcess server(TlsFlags(office.Server("server", authority)));
  const ProgramResult bad =
      AskGenerically(server, BadRequest(), {"--tls-ca", authority.certificate});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, HasSubstr("\nreason stowage/INVALID\n")) << bad.err;
}

TEST(AccessLog, HasTheHitsThatItIsToldTo) {
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  const auto ask = [&request](const ServerProcess& server, int times) {
    const Remote remote(server.address());
    v1::SolveResponse response;
    for (int i = 0; i < times; ++i) EXPECT_EQ(Text(remote.Solve(request, &response)), "OK");
    return response.origin().fingerprint();
  };
  ServerProcess all({"--access-log", "1"});
  const std::string fingerprint = ask(all, 3);
  EXPECT_NE(
      all.WaitForLogLine({"level=info", "event=call", "client=127.0.0.1", "source=MEMORY_CACHE",
                          "fingerprint=" + fingerprint, "outcome=OPTIMAL"}),
      "");
  ServerProcess none({"--access-log", "0"});
  ask(none, 3);
  EXPECT_FALSE(Remote(none.address()).SendRaw("Solve", "\xff").ok());
  EXPECT_NE(none.WaitForLogLine({"code=INVALID_ARGUMENT"}), "");  // written after the others
  EXPECT_THAT(none.Log(), testing::Not(HasSubstr("MEMORY_CACHE")));
}

}  // namespace
}  // namespace stowage
