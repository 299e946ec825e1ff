// Traces of calls, as a collector gets them from the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "proto/convert/chain_message.h"
#include "tests/integration/metrics.h"
#include "tests/integration/rpc.h"
#include "tests/integration/trace_collector.h"
#include "tests/support/certificates.h"
#include "tests/support/chains.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace stowage {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kCallersSpan = "b7ad6b7169203331";
constexpr const char* kSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr const char* kNotSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

// The call, and its steps in the order in which they ended.
struct SeenTrace {
  otlp::Span call;
  std::vector<otlp::Span> steps;

  const otlp::Span* Step(const std::string& name) const {
    for (const otlp::Span& step : steps) {
      if (step.name() == name) return &step;
    }
    return nullptr;
  }
};

std::vector<SeenTrace> TracesIn(const std::vector<otlp::Span>& spans) {
  std::vector<SeenTrace> traces;
  for (const otlp::Span& span : spans) {
    if (span.kind() != otlp::Span::SPAN_KIND_SERVER) continue;
    SeenTrace& trace = traces.emplace_back(SeenTrace{.call = span, .steps = {}});
    for (const otlp::Span& step : spans) {
      if (step.parent_span_id() == span.span_id()) trace.steps.push_back(step);
    }
  }
  return traces;
}

std::vector<std::string> StepNames(const SeenTrace& trace) {
  std::vector<std::string> names;
  for (const otlp::Span& step : trace.steps) names.push_back(step.name());
  return names;
}

std::string TextOf(const otlp::Span& span, const std::string& key) {
  for (const otlp::KeyValue& attribute : span.attributes()) {
    if (attribute.key() == key) return attribute.value().string_value();
  }
  return "";
}

int64_t IntegerOf(const otlp::Span& span, const std::string& key) {
  for (const otlp::KeyValue& attribute : span.attributes()) {
    if (attribute.key() == key) return attribute.value().int_value();
  }
  return -1;
}

std::vector<std::string> TracedBy(const std::string& collector, const std::string& ratio) {
  return {"--trace-collector", collector, "--trace-ratio", ratio};
}

grpc::Status Ask(const ServerProcess& server, const char* traceparent,
                 const v1::SolveRequest& request = SmallSolveRequest()) {
  const Remote remote(server.address());
  grpc::ClientContext context;
  if (traceparent != nullptr) context.AddMetadata("traceparent", traceparent);
  context.AddMetadata("x-request-id", "job 17");
  context.AddMetadata("authorization", "Bearer no-token-of-this-server");
  v1::SolveResponse response;
  return remote.Solve(request, &response, &context);
}

TEST(Traces, ACallIsATraceWithQueueAndSolveWithin) {
  TraceCollector collector;
  const ServerProcess server(TracedBy(collector.address(), "0"));
  ASSERT_TRUE(Ask(server, kSampled).ok());
  const std::vector<otlp::Span> spans = collector.WaitForCalls(1);
  const std::vector<SeenTrace> traces = TracesIn(spans);
  ASSERT_THAT(traces, SizeIs(1));
  const SeenTrace& trace = traces.front();
  for (const otlp::Span& span : spans) EXPECT_EQ(absl::BytesToHexString(span.trace_id()), kTrace);
  EXPECT_EQ(absl::BytesToHexString(trace.call.parent_span_id()), kCallersSpan);
  EXPECT_EQ(trace.call.name(), "stowage.v1.Scheduler/Solve");
  EXPECT_EQ(TextOf(trace.call, "stowage.request_id"), "job 17");
  EXPECT_EQ(TextOf(trace.call, "stowage.origin"), "SOLVED");
  EXPECT_THAT(StepNames(trace),
              IsSupersetOf({"stowage.read", "stowage.find_answer", "stowage.find_in_tiers",
                            "stowage.queue", "stowage.solve", "stowage.deliver"}));
  for (const otlp::Span& step : trace.steps) {
    EXPECT_GE(step.start_time_unix_nano(), trace.call.start_time_unix_nano()) << step.name();
    EXPECT_LE(step.start_time_unix_nano(), step.end_time_unix_nano()) << step.name();
    EXPECT_LE(step.end_time_unix_nano(), trace.call.end_time_unix_nano()) << step.name();
  }
  ASSERT_NE(trace.Step("stowage.queue"), nullptr);
  ASSERT_NE(trace.Step("stowage.solve"), nullptr);
  EXPECT_LE(trace.Step("stowage.queue")->end_time_unix_nano(),
            trace.Step("stowage.solve")->start_time_unix_nano());
}

TEST(Traces, ASolveHasTheSolversThatAutoRunsAndTheBoundWithin) {
  TraceCollector collector;
  const ServerProcess server(TracedBy(collector.address(), "1"));
  v1::SolveRequest request = SmallSolveRequest();
  *request.mutable_chain() = ToMessage(EqualChain(20));
  request.mutable_platform()->set_memory_bytes(300);
  ASSERT_TRUE(Ask(server, nullptr, request).ok());
  const std::vector<otlp::Span> spans = collector.WaitForCalls(1);
  const SeenTrace trace = TracesIn(spans).front();
  const otlp::Span* const solve = trace.Step("stowage.solve");
  ASSERT_NE(solve, nullptr);
  std::vector<std::string> parts;
  for (const otlp::Span& span : spans) {
    if (span.parent_span_id() != solve->span_id()) continue;
    parts.push_back(span.name());
    EXPECT_EQ(span.trace_id(), solve->trace_id());
    EXPECT_GE(span.start_time_unix_nano(), solve->start_time_unix_nano()) << span.name();
    EXPECT_LE(span.end_time_unix_nano(), solve->end_time_unix_nano()) << span.name();
    EXPECT_THAT(TextOf(span, "stowage.outcome"), AnyOf("better", "no_better")) << span.name();
  }
  EXPECT_THAT(parts, IsSupersetOf({"stowage.solve periodic", "stowage.solve rotor",
                                   "stowage.solve local_search", "stowage.bound"}));
  EXPECT_THAT(spans, SizeIs(1 + trace.steps.size() + parts.size())) << "a span is of no step";
}

TEST(Traces, EveryMethodHasASpanOfItsCall) {
  TraceCollector collector;
  const ServerProcess server(TracedBy(collector.address(), "1"));
  const Remote remote(server.address());
  v1::ListSolversResponse solvers;
  ASSERT_TRUE(remote.ListSolvers(&solvers).ok());
  EXPECT_EQ(TracesIn(collector.WaitForCalls(1)).front().call.name(),
            "stowage.v1.Scheduler/ListSolvers");

  grpc::ClientContext context;
  const auto stub = v1::Scheduler::NewStub(remote.channel());
  const auto reader = stub->SolveStream(&context, SmallSolveRequest());
  v1::SolveEvent event;
  while (reader->Read(&event)) {
  }
  ASSERT_TRUE(reader->Finish().ok());
  const SeenTrace stream = TracesIn(collector.WaitForCalls(2)).back();
  EXPECT_EQ(stream.call.name(), "stowage.v1.Scheduler/SolveStream");
  EXPECT_THAT(StepNames(stream),
              IsSupersetOf({"stowage.read", "stowage.queue", "stowage.solve", "stowage.deliver"}));
}

// What the first call cached answers the second, and the text of that the third.
TEST(Traces, AHitHasItsLookUpAlone) {
  TraceCollector collector;
  const ServerProcess server(TracedBy(collector.address(), "1"));
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_options()->set_use_cache(true);
  for (size_t calls = 1; calls <= 3; ++calls) {
    ASSERT_TRUE(Ask(server, nullptr, request).ok());
    collector.WaitForCalls(calls);
  }
  const std::vector<SeenTrace> traces = TracesIn(collector.Spans());
  ASSERT_THAT(traces, SizeIs(3));
  EXPECT_THAT(StepNames(traces[1]), ElementsAre("stowage.find_response", "stowage.read",
                                                "stowage.find_answer", "stowage.deliver"));
  EXPECT_EQ(TextOf(traces[1].call, "stowage.origin"), "MEMORY_CACHE");
  EXPECT_THAT(StepNames(traces[2]), ElementsAre("stowage.find_response", "stowage.deliver"));
}

TEST(Traces, TheCallersFlagDecides) {
  TraceCollector collector;
  const ServerProcess server(TracedBy(collector.address(), "1"));
  ASSERT_TRUE(Ask(server, kNotSampled).ok());
  ASSERT_TRUE(Ask(server, kSampled).ok());
  const std::vector<SeenTrace> traces = TracesIn(collector.WaitForCalls(1));
  ASSERT_THAT(traces, SizeIs(1));
  EXPECT_EQ(absl::BytesToHexString(traces[0].call.parent_span_id()), kCallersSpan);
}

TEST(Traces, TheRatioChangesWithTheConfiguration) {
  const TempFolder folder;
  TraceCollector collector;
  ServerProcess server({"--config", folder.Write("server.toml", "trace-ratio = 0\n"),
                        "--trace-collector", collector.address()});
  ASSERT_TRUE(Ask(server, nullptr).ok());
  folder.Write("server.toml", "trace-ratio = 1\n");
  server.Signal(SIGHUP);
  ASSERT_NE(server.WaitForLogLine({"event=reloaded", "trace-ratio: 0 -> 1"}), "");
  ASSERT_TRUE(Ask(server, nullptr).ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
  EXPECT_THAT(TracesIn(collector.Spans()), SizeIs(1));
}

TEST(Traces, TheServerWarnsOfACollectorOnAnotherMachine) {
  ServerProcess server(TracedBy("192.0.2.1:4317", "0"));
  EXPECT_NE(server.WaitForLogLine({"event=unsafe", "192.0.2.1:4317"}), "");
  ServerProcess encrypting(TracedBy("https://192.0.2.1:4317", "0"));
  EXPECT_NE(encrypting.WaitForLogLine({"event=serving"}), "");
  encrypting.Signal(SIGTERM);
  EXPECT_EQ(encrypting.WaitForExit(), 0);
  EXPECT_THAT(encrypting.Log(), Not(HasSubstr("192.0.2.1:4317")));
}

TEST(Traces, OneThatBeginsHereIsInTheLog) {
  TraceCollector collector;
  ServerProcess server(TracedBy(collector.address(), "1"));
  ASSERT_TRUE(Ask(server, nullptr).ok());
  const SeenTrace trace = TracesIn(collector.WaitForCalls(1)).front();
  EXPECT_EQ(trace.call.parent_span_id(), "");
  const std::string id = absl::BytesToHexString(trace.call.trace_id());
  EXPECT_NE(server.WaitForLogLine({"event=call", "trace=" + id}), "");
}

TEST(Traces, HaveNoTokensAndNothingOfTheChain) {
  TraceCollector collector;
  const ServerProcess server(TracedBy(collector.address(), "1"));
  v1::SolveRequest request = SmallSolveRequest();
  request.mutable_chain()->set_name("secret-chain");
  request.mutable_chain()->mutable_stages(0)->set_name("secret-layer");
  ASSERT_TRUE(Ask(server, nullptr, request).ok());
  request.mutable_chain()->mutable_stages(0)->set_saved_bytes(-1);
  ASSERT_FALSE(Ask(server, nullptr, request).ok());
  collector.WaitForCalls(2);
  for (const otlp::ExportTraceServiceRequest& sent : collector.Requests()) {
    const std::string bytes = sent.SerializeAsString();
    for (const char* secret : {"no-token-of-this-server", "secret-chain", "secret-layer"}) {
      EXPECT_FALSE(absl::StrContains(bytes, secret)) << secret;
    }
  }
}

TEST(Traces, ARefusedCallHasASpanWhereItsCallerSamplesIt) {
  const TempFolder folder;
  const std::string tokens = folder.Write("tokens", "one token-of-one-0123456789\n");
  TraceCollector collector;
  std::vector<std::string> flags = TracedBy(collector.address(), "1");
  flags.insert(flags.end(), {"--token-file", tokens});
  ServerProcess server(flags);
  for (const char* traceparent : {kNotSampled, static_cast<const char*>(nullptr), kSampled}) {
    ASSERT_EQ(Ask(server, traceparent).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
  const std::vector<SeenTrace> traces = TracesIn(collector.Spans());
  ASSERT_THAT(traces, SizeIs(1));
  EXPECT_EQ(absl::BytesToHexString(traces[0].call.parent_span_id()), kCallersSpan);
  EXPECT_EQ(IntegerOf(traces[0].call, "rpc.grpc.status_code"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(StepNames(traces[0]), ElementsAre("stowage.deliver"));
}

TEST(Traces, ACallAboveItsClientsRateHasASpan) {
  TraceCollector collector;
  std::vector<std::string> flags = TracedBy(collector.address(), "0");
  flags.insert(flags.end(), {"--client-rate", "1"});
  const ServerProcess server(flags);
  size_t calls = 0;
  grpc::Status status;
  while (status.ok() && calls < 100) {
    status = Ask(server, kSampled);
    ++calls;
  }
  ASSERT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const otlp::Span refused = TracesIn(collector.WaitForCalls(calls)).back().call;
  EXPECT_EQ(IntegerOf(refused, "rpc.grpc.status_code"), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(Traces, WhatWaitsIsSentWhenTheServerEnds) {
  TraceCollector collector;
  ServerProcess server(TracedBy(collector.address(), "1"));
  ASSERT_TRUE(Ask(server, nullptr).ok());
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
  EXPECT_THAT(TracesIn(collector.Spans()), SizeIs(1));
}

double SpansWith(const ServerProcess& server, const std::string& outcome) {
  return MetricOf(server, absl::StrCat("stowage_trace_spans_total{outcome=\"", outcome, "\"}"));
}

// Until spans have failed, while calls are answered as ever.
void ExpectFailedSpansAndAnswers(ServerProcess& server) {
  const Remote remote(server.address());
  const auto end = std::chrono::steady_clock::now() + kPatience;
  EXPECT_TRUE(remote.Answers());
  while (!(SpansWith(server, "failed") > 0) && std::chrono::steady_clock::now() < end) {
    EXPECT_TRUE(remote.Answers());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_GT(SpansWith(server, "failed"), 0);
  EXPECT_EQ(SpansWith(server, "sent"), 0);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
}

TEST(Traces, ACollectorThatNeverAnswersIsInNobodysWay) {
  const TraceCollector collector(TraceCollector::Answers::kNone);
  ServerProcess server(TracedBy(collector.address(), "1"));
  ExpectFailedSpansAndAnswers(server);
}

TEST(Traces, ACollectorThatIsNotThereIsInNobodysWay) {
  ServerProcess server(TracedBy("127.0.0.1:1", "1"));
  ExpectFailedSpansAndAnswers(server);
}

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const Pair& server) {
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({ReadFile(server.key), ReadFile(server.certificate)});
  return grpc::SslServerCredentials(options);
}

std::vector<std::string> TracedWithTls(const TraceCollector& collector, const Pair& authority) {
  std::vector<std::string> flags = TracedBy("https://" + collector.address(), "1");
  flags.insert(flags.end(), {"--trace-collector-ca", authority.certificate});
  return flags;
}

TEST(Traces, AreEncryptedForACollectorWithTls) {
  Office office;
  const Pair authority = office.Authority("authority");
  TraceCollector collector(TraceCollector::Answers::kAll,
                           CredentialsOf(office.Server("collector", authority)));
  const ServerProcess server(TracedWithTls(collector, authority));
  ASSERT_TRUE(Ask(server, kSampled).ok());
  EXPECT_THAT(TracesIn(collector.WaitForCalls(1)), SizeIs(1));
}

TEST(Traces, GoToNoCollectorThatAnotherAuthoritySigned) {
  Office office;
  const Pair signer = office.Authority("signer");
  const TraceCollector collector(TraceCollector::Answers::kAll,
                                 CredentialsOf(office.Server("collector", signer)));
  ServerProcess server(TracedWithTls(collector, office.Authority("other")));
  ExpectFailedSpansAndAnswers(server);
  EXPECT_THAT(collector.Spans(), SizeIs(0));
}

TEST(Traces, SpansThatACollectorRejectsHaveFailed) {
  TraceCollector collector(TraceCollector::Answers::kAllButOneSpan);
  const ServerProcess server(TracedBy(collector.address(), "1"));
  ASSERT_TRUE(Ask(server, nullptr).ok());
  const size_t spans = collector.WaitForCalls(1).size();
  WaitForMetric(server, "stowage_trace_spans_total{outcome=\"failed\"}", 1);
  EXPECT_EQ(SpansWith(server, "sent"), static_cast<double>(spans - 1));
}

TEST(Traces, WhatWasSentIsCounted) {
  TraceCollector collector;
  const ServerProcess server(TracedBy(collector.address(), "1"));
  ASSERT_TRUE(Ask(server, nullptr).ok());
  const size_t spans = collector.WaitForCalls(1).size();
  WaitForMetric(server, "stowage_trace_spans_total{outcome=\"sent\"}", static_cast<double>(spans));
  EXPECT_EQ(SpansWith(server, "failed"), 0);
  EXPECT_EQ(SpansWith(server, "dropped"), 0);
}

}  // namespace
}  // namespace stowage
