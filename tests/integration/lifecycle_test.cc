// How the server starts, drains, dies and comes back.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/descriptor_database.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "solver/base/units.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::StartsWith;
using testing::UnorderedElementsAre;

std::vector<std::string> OneAtATime(const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags(std::begin(kOneAtATime), std::end(kOneAtATime));
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

ProgramResult RunServer(std::vector<std::string> flags) {
  flags.insert(flags.begin(),
               {Program("stowage-server"), "--http", "127.0.0.1:0", "--cache-dir", "none"});
  return RunProgram(flags);
}

size_t Lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Lifecycle, HealthSaysServingOfTheServerAndTheService) {
  ServerProcess server;
  const Remote remote(server.address());
  EXPECT_EQ(remote.Health(), HealthState::SERVING);
  EXPECT_EQ(remote.Health("stowage.v1.Scheduler"), HealthState::SERVING);
  EXPECT_EQ(remote.Health("stowage.v1.Nothing"), HealthState::UNKNOWN);
}

class Reflection : public testing::Test {
 protected:
  using Service = grpc::reflection::v1alpha::ServerReflection;
  using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
  using Response = grpc::reflection::v1alpha::ServerReflectionResponse;
  using Stream = grpc::ClientReaderWriter<Request, Response>;

  std::unique_ptr<Stream> Open(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + kPatience);
    return stub_->ServerReflectionInfo(context);
  }
  static Response Ask(Stream& stream, const Request& request) {
    Response response;
    EXPECT_TRUE(stream.Write(request));
    EXPECT_TRUE(stream.Read(&response));
    return response;
  }

  const ServerProcess server_;
  const Remote remote_{server_.address()};
  const std::unique_ptr<Service::Stub> stub_ = Service::NewStub(remote_.channel());
};

TEST_F(Reflection, ListsTheServicesAndDescribesTheirMessages) {
  grpc::ClientContext context;
  const std::unique_ptr<Stream> stream = Open(&context);
  Request request;
  request.set_list_services("*");
  std::vector<std::string> names;
  const Response list = Ask(*stream, request);
  for (const auto& service : list.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, UnorderedElementsAre("stowage.v1.Scheduler", "grpc.health.v1.Health",
                                          "grpc.reflection.v1alpha.ServerReflection"));

  // The files, from which a generic client builds its messages.
  request.set_file_containing_symbol("stowage.v1.Scheduler.Solve");
  const Response files = Ask(*stream, request);
  std::vector<std::string> files_names;
  for (const std::string& bytes : files.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(bytes));
    files_names.push_back(file.name());
  }
  EXPECT_THAT(files_names,
              UnorderedElementsAre("stowage/v1/scheduler.proto", "stowage/v1/model.proto",
                                   "google/protobuf/struct.proto"));
  request.set_file_by_filename("google/protobuf/struct.proto");
  EXPECT_EQ(Ask(*stream, request).file_descriptor_response().file_descriptor_proto_size(), 1);
  request.set_all_extension_numbers_of_type("stowage.v1.Chain");
  EXPECT_EQ(Ask(*stream, request).all_extension_numbers_response().base_type_name(),
            "stowage.v1.Chain");

  for (const char* nothing : {"", "stowage.v1.Nothing"}) {
    request.set_file_containing_symbol(nothing);
    EXPECT_EQ(Ask(*stream, request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  }
  stream->WritesDone();
  EXPECT_EQ(Text(stream->Finish()), "OK");
}

// As tools do that know nothing of the server: from the list to the file of each service, and to
// all that those import, until every name is known.
TEST_F(Reflection, DescribesEveryServiceThatItListsWithAllThatItImports) {
  const TempFolder folder;
  const ServerProcess server(
      {"--operator-token-file",
       folder.Write("operators", "oncall 0123456789abcdef0123456789abcdef")});
  const Remote remote(server.address());
  const auto stub = Service::NewStub(remote.channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const std::unique_ptr<Stream> stream = stub->ServerReflectionInfo(&context);
  Request request;
  request.set_list_services("*");
  const Response list = Ask(*stream, request);
  EXPECT_EQ(list.list_services_response().service_size(), 4);

  // Nothing of this program's own descriptors: only what the server sends.
  google::protobuf::SimpleDescriptorDatabase files;
  for (const auto& service : list.list_services_response().service()) {
    request.set_file_containing_symbol(service.name());
    const Response response = Ask(*stream, request);
    EXPECT_TRUE(response.has_file_descriptor_response()) << service.name();
    for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(bytes));
      google::protobuf::FileDescriptorProto known;
      if (!files.FindFileByName(file.name(), &known)) files.Add(file);
    }
  }
  google::protobuf::DescriptorPool pool(&files);
  for (const auto& service : list.list_services_response().service()) {
    const auto* const described = pool.FindServiceByName(service.name());
    ASSERT_NE(described, nullptr) << service.name();
    for (int i = 0; i < described->method_count(); ++i) {
      EXPECT_NE(described->method(i)->input_type(), nullptr) << service.name();
      EXPECT_NE(described->method(i)->output_type(), nullptr) << service.name();
    }
  }
  const auto* const health = pool.FindServiceByName("grpc.health.v1.Health");
  ASSERT_NE(health, nullptr);
  EXPECT_NE(health->FindMethodByName("Check"), nullptr);
  EXPECT_NE(health->FindMethodByName("Watch"), nullptr);
  stream->WritesDone();
  EXPECT_EQ(Text(stream->Finish()), "OK");
}

// Tools ask for the newer version first, and fall back on this answer.
TEST_F(Reflection, SaysThatItHasNoOtherVersion) {
  const grpc::Status status =
      remote_.SendRaw("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << Text(status);
}

TEST_F(Reflection, StreamsThatStayOpenHoldNoThreads) {
  constexpr int kStreams = 200;
  Request request;
  request.set_list_services("*");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(Open(contexts.back().get()));
    Ask(*streams.back(), request);
  }
  EXPECT_LE(OfProcess(server_, "Threads"), 100);
  for (const auto& context : contexts) context->TryCancel();
}

TEST(Lifecycle, AnIdleServerStopsAtOnceOnEitherSignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServerProcess server;
    EXPECT_TRUE(Remote(server.address()).Answers());
    server.Signal(signal);
    EXPECT_THAT(server.WaitForExit(), Optional(0));
    EXPECT_THAT(server.Log(), AllOf(HasSubstr("event=draining"), HasSubstr("event=stopped")));
  }
}

// What a rolling update relies on.
TEST(Lifecycle, ARunningSolveFinishesAfterSigtermWhileNewOnesAreRefused) {
  ServerProcess server(OneAtATime({"--grace", "100s"}));
  const Remote remote(server.address());
  grpc::ClientContext watch_context;
  watch_context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto health = grpc::health::v1::Health::NewStub(remote.channel());
  const auto watch = health->Watch(&watch_context, grpc::health::v1::HealthCheckRequest());
  HealthState state;
  ASSERT_TRUE(watch->Read(&state));
  EXPECT_EQ(state.status(), HealthState::SERVING);

  const auto running = Occupy(remote, LongSolveRequest(5000, int64_t{500} << 30));
  server.Signal(SIGTERM);

  ASSERT_TRUE(watch->Read(&state)) << server.Log();
  EXPECT_EQ(state.status(), HealthState::NOT_SERVING);
  EXPECT_EQ(remote.Health(), HealthState::NOT_SERVING);
  EXPECT_EQ(remote.Health("stowage.v1.Scheduler"), HealthState::NOT_SERVING);
  // Refused by the draining engine: until that has begun, the queue is still merely full.
  v1::SolveResponse refused;
  grpc::Status status;
  do {
    status = remote.Solve(SmallSolveRequest(), &refused);
  } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << Text(status);
  EXPECT_THAT(status.error_message(), HasSubstr("draining"));

  const grpc::Status finished = running->Wait();
  EXPECT_TRUE(finished.ok()) << Text(finished);
  EXPECT_EQ(running->response().outcome(), v1::FEASIBLE);
  EXPECT_GT(running->response().schedule().operations_size(), 2 * 5000);
  watch_context.TryCancel();
  EXPECT_THAT(server.WaitForExit(), Optional(0)) << server.Log();
  const std::string log = server.Log();
  const std::string after = log.substr(std::min(log.size(), log.find("event=draining")));
  EXPECT_THAT(after, AllOf(HasSubstr("origin=periodic"), HasSubstr("event=stopped")));
}

// As gRPC does where the system gives it no memory.
TEST(Lifecycle, AnAbortIsTheLastLineOfTheLog) {
  ServerProcess server;
  server.Signal(SIGABRT);
  EXPECT_THAT(server.WaitForExit(), Optional(128 + SIGABRT));
  const std::vector<std::string> lines = absl::StrSplit(server.Log(), '\n', absl::SkipEmpty());
  EXPECT_THAT(lines.back(),
              AllOf(HasSubstr("level=error event=aborted"), HasSubstr("raise its memory limit")));
}

TEST(Lifecycle, ASolveThatOutlastsTheGraceIsStopped) {
  ServerProcess server(OneAtATime({"--grace", "0.2s"}));
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  server.Signal(SIGTERM);
  EXPECT_THAT(server.WaitForExit(), Optional(0)) << server.Log();
  const grpc::Status status = running->Wait();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << Text(status);
  EXPECT_THAT(server.Log(), HasSubstr("event=stopped"));
}

TEST(Lifecycle, ASecondSignalEndsItAtOnce) {
  ServerProcess server(OneAtATime({"--grace", "1000s"}));
  const Remote remote(server.address());
  const auto running = Occupy(remote, LongSolveRequest());
  server.Signal(SIGTERM);
  // By then the second signal is let through.
  while (remote.Health() == HealthState::SERVING) {
  }
  server.Signal(SIGTERM);
  EXPECT_THAT(server.WaitForExit(), Optional(128 + SIGTERM));
  EXPECT_EQ(running->Wait().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// What a balancer relies on: it has time to notice.
TEST(LameDuck, AnswersNewCallsButIsNotServingUntilASecondSignal) {
  for (const int second : {SIGTERM, SIGINT}) {
    ServerProcess server({"--lame-duck", "1000s"});
    const Remote remote(server.address());
    EXPECT_EQ(remote.Health(), HealthState::SERVING);
    server.Signal(SIGTERM);
    EXPECT_NE(server.WaitForLogLine({"event=lame_duck", "seconds=1000"}), "");
    EXPECT_EQ(remote.Health(), HealthState::NOT_SERVING);
    EXPECT_THAT(HttpGet(server.http_address(), "/readyz"), StartsWith("503"));
    EXPECT_TRUE(remote.Answers());
    EXPECT_TRUE(Remote(server.address()).Answers()) << "over a new connection";
    server.Signal(second);
    EXPECT_THAT(server.WaitForExit(), Optional(0));
    EXPECT_THAT(server.Log(), AllOf(HasSubstr("event=draining"), HasSubstr("event=stopped")));
  }
}

TEST(LameDuck, EndsByItself) {
  ServerProcess server({"--lame-duck", "0.1s"});
  server.Signal(SIGTERM);
  EXPECT_THAT(server.WaitForExit(), Optional(0));
  EXPECT_THAT(server.Log(), AllOf(HasSubstr("event=lame_duck"), HasSubstr("event=stopped")));
}

TEST(LameDuck, IsSkippedByCtrlC) {
  ServerProcess server({"--lame-duck", "1000s"});
  server.Signal(SIGINT);
  EXPECT_THAT(server.WaitForExit(), Optional(0));
  EXPECT_THAT(server.Log(), testing::Not(HasSubstr("event=lame_duck")));
}

TEST(Lifecycle, AKilledServerComesBackOnItsPort) {
  // An address of its own: ports that other tests get do not collide with the one to come back to.
  ServerProcess first({}, "127.0.0.2:0");
  const std::string address = first.address();
  const Remote remote(address);
  EXPECT_TRUE(remote.Answers());
  first.Signal(SIGKILL);
  EXPECT_THAT(first.WaitForExit(), Optional(128 + SIGKILL));
  EXPECT_FALSE(remote.Answers());

  ServerProcess second({}, address);
  EXPECT_EQ(second.address(), address);
  EXPECT_TRUE(Remote(address).Answers());
}

TEST(Lifecycle, APortInUseIsReportedInOneLine) {
  ServerProcess first;
  const ProgramResult second = RunServer({"--listen", first.address()});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(second.out, "");
  EXPECT_EQ(Lines(second.err), 1U) << second.err;
  EXPECT_THAT(second.err,
              AllOf(HasSubstr("level=error event=cannot_start"), HasSubstr(first.address()),
                    HasSubstr("Address already in use"), HasSubstr("--listen")));
  EXPECT_TRUE(Remote(first.address()).Answers());
}

TEST(Lifecycle, AUnixSocketServesToo) {
  const TempFolder folder;
  const std::string address = "unix:" + folder.Path("socket");
  ServerProcess server({}, address);
  EXPECT_EQ(server.address(), address);
  EXPECT_TRUE(Remote(address).Answers());
}

// Nobody reads the log, and its pipe is full before the last call.
TEST(Lifecycle, CallsAndTheEndDoNotWaitForWhoeverReadsTheLog) {
  constexpr int kCalls = 500;  // of which each writes a line of more than 200 bytes
  const TempFolder folder;
  const std::string address = "unix:" + folder.Path("socket");
  const std::string log = folder.Path("log");
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);
  const int unread = open(log.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(unread, 0);
  BackgroundProgram server(
      {"/bin/sh", "-c",
       absl::StrCat("exec ", Program("stowage-server"), " --listen ", address,
                    " --http none --cache-dir none --lame-duck 0s --log-level debug 2> ", log)});
  const Remote remote(address);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!remote.Answers() && std::chrono::steady_clock::now() < deadline) {
  }
  int answered = 0;
  while (answered < kCalls && remote.Answers()) ++answered;
  EXPECT_EQ(answered, kCalls);
  server.Signal(SIGTERM);
  EXPECT_THAT(server.WaitForExit(), Optional(0));
  close(unread);
}

// gRPC would remove the socket of the server that lives and take its place.
TEST(Lifecycle, ASecondServerLeavesALiveUnixSocketAlone) {
  const TempFolder folder;
  const std::string address = "unix:" + folder.Path("socket");
  ServerProcess first({}, address);
  const ProgramResult second = RunServer({"--listen", address});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("already in use"), HasSubstr("--listen")));
  EXPECT_TRUE(Remote(address).Answers());
  // One that nobody listens on any more is replaced.
  first.Signal(SIGKILL);
  ASSERT_TRUE(first.WaitForExit().has_value());
  ServerProcess third({}, address);
  EXPECT_TRUE(Remote(address).Answers());
}

TEST(Lifecycle, EveryAddressThatCannotBeListenedOnIsReported) {
  for (const char* listen : {"no such host:1", "192.0.2.1:50051", "unix:/no/such/folder/socket"}) {
    const ProgramResult result = RunServer({"--listen", listen});
    EXPECT_EQ(result.exit_code, 1) << listen;
    EXPECT_EQ(Lines(result.err), 1U) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("event=cannot_start"), HasSubstr(listen)));
  }
}

TEST(Lifecycle, ABadFlagIsOneLineThatNamesIt) {
  struct Case {
    std::vector<std::string> flags;
    const char* named;
  };
  const Case cases[] = {
      {{"--threads", "0"}, "--threads"},
      {{"--threads", "2000"}, "--threads"},
      {{"--queue-length", "-1"}, "--queue-length"},
      {{"--solve-memory", "lots"}, "--solve-memory"},
      {{"--solve-memory", "-1GiB"}, "--solve-memory"},
      {{"--max-message", "3GiB"}, "--max-message"},
      {{"--max-message", "1"}, "--max-message"},
      {{"--solve-turn", "0s"}, "--solve-turn"},
      {{"--grace", "soon"}, "--grace"},
      {{"--grace", "nan"}, "--grace"},
      {{"--grace", "2000000s"}, "--grace"},
      {{"--lame-duck", "quack"}, "--lame-duck"},
      {{"--lame-duck", "2000000s"}, "--lame-duck"},
      {{"--log-level", "loud"}, "--log-level"},
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"--listen"}, "--listen"},
      {{"--listen", "127.0.0.1"}, "--listen"},
      {{"--listen", "::1"}, "--listen"},
      {{"--listen", ":50051"}, "--listen"},
      {{"--listen", "127.0.0.1:x"}, "--listen"},
      {{"--listen", "127.0.0.1:70000"}, "--listen"},
      {{"--listen", "unix:"}, "--listen"},
      {{"stray"}, "stray"},
  };
  for (const Case& bad : cases) {
    const ProgramResult result = RunServer(bad.flags);
    EXPECT_EQ(result.exit_code, 1) << bad.flags[0];
    EXPECT_EQ(result.out, "") << bad.flags[0];
    EXPECT_EQ(Lines(result.err), 1U) << result.err;
    EXPECT_THAT(result.err, AllOf(StartsWith("stowage-server: "), HasSubstr(bad.named)));
  }
}

TEST(Lifecycle, VersionAndHelpGoToStandardOutput) {
  const ProgramResult version = RunServer({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, AllOf(StartsWith("stowage-server "), EndsWith("\n")));
  const ProgramResult help = RunServer({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--listen"));
  EXPECT_THAT(version.err + help.err, IsEmpty());
}

// A server with so much address space (ulimit -v). Returns what it says that it needs, unless it
// serves.
std::string StartWithin(int64_t bytes) {
  BackgroundProgram server({"/usr/bin/prlimit", absl::StrCat("--as=", bytes),
                            Program("stowage-server"), "--listen", "127.0.0.1:0", "--http",
                            "127.0.0.1:0", "--cache-dir", "none", "--lame-duck", "0s", "--threads",
                            "2"});
  const std::string line = server.WaitForLogLine({"event=serving", " address="});
  if (!line.empty()) {
    EXPECT_TRUE(Remote(ValueOf(line, " address=")).Answers()) << bytes;
    server.Signal(SIGTERM);
    EXPECT_THAT(server.WaitForExit(), Optional(0)) << bytes << server.Log();
    return "";
  }
  EXPECT_THAT(server.WaitForExit(), Optional(1)) << bytes << server.Log();
  EXPECT_EQ(Lines(server.Log()), 1U) << server.Log();
  EXPECT_THAT(server.Log(), AllOf(StartsWith("stowage-server: needs "),
                                  HasSubstr(" of address space"), HasSubstr("ulimit -v")));
  const std::string need = server.Log().substr(server.Log().find("needs ") + 6);
  return need.substr(0, need.find(" of"));
}

TEST(AddressSpace, IsEnoughOrTheServerSaysWhatItNeeds) {
  constexpr int64_t kMiB = 1 << 20;
  const std::string need = StartWithin(100 * kMiB);
  ASSERT_NE(need, "");
  for (int64_t mebibytes = 200; mebibytes < 1000; mebibytes += 200) StartWithin(mebibytes * kMiB);
  EXPECT_EQ(StartWithin(1100 * kMiB), "");
  // What it says is enough, but for rounding.
  EXPECT_EQ(StartWithin(*ParseBytes(need) * 101 / 100), "");
}

}  // namespace
}  // namespace stowage
