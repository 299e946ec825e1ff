#include "server/observe/otlp_spans.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"

namespace stowage {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;
using System = std::chrono::system_clock;

constexpr const char* kTraceOfCall = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kSpanOfCaller = "b7ad6b7169203331";

// One moment.
TwoClocks Now() {
  return {.steady = Steady::time_point(std::chrono::minutes(1)),
          .system = System::time_point(std::chrono::hours(1))};
}

std::string ValueOf(const otlp::AnyValue& value) {
  switch (value.value_case()) {
    case otlp::AnyValue::kStringValue:
      return value.string_value();
    case otlp::AnyValue::kIntValue:
      return std::to_string(value.int_value());
    case otlp::AnyValue::kBoolValue:
      return value.bool_value() ? "true" : "false";
    default:
      return "";
  }
}

template <typename Message>
std::map<std::string, std::string> AttributesOf(const Message& message) {
  std::map<std::string, std::string> attributes;
  for (const otlp::KeyValue& attribute : message.attributes()) {
    attributes[attribute.key()] = ValueOf(attribute.value());
  }
  return attributes;
}

TracedCall SomeCall() {
  TracedCall call;
  call.record.method = "Solve";
  call.record.id = "job 17";
  call.record.client = "alice";
  call.record.stages = 21;
  call.record.solver = "rotor";
  AnswerRecord answer;
  answer.origin.source = Origin::Source::kCoalesced;
  call.record.answer = std::make_shared<const AnswerRecord>(answer);
  call.ids = {.trace = kTraceOfCall, .parent = kSpanOfCaller};
  call.span_id = 0x0102030405060708;
  call.begin = Now().steady - milliseconds(20);
  call.end = Now().steady - milliseconds(10);
  call.spans = {{.name = kSolveSpan,
                 .begin = call.begin + milliseconds(1),
                 .end = call.end - milliseconds(1),
                 .is_joined = true,
                 .id = 9}};
  return call;
}

otlp::ScopeSpans SpansOf(const TracedCall& call) {
  return OtlpRequest({call}, {}, Now()).resource_spans(0).scope_spans(0);
}

uint64_t UnixNanos(System::time_point at) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(at.time_since_epoch()).count());
}

TEST(OtlpSpans, ACallIsASpanOfTheCallersSpan) {
  const otlp::ScopeSpans spans = SpansOf(SomeCall());
  const otlp::Span& span = spans.spans(0);
  EXPECT_EQ(span.name(), "stowage.v1.Scheduler/Solve");
  EXPECT_EQ(span.kind(), otlp::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(absl::BytesToHexString(span.trace_id()), kTraceOfCall);
  EXPECT_EQ(absl::BytesToHexString(span.parent_span_id()), kSpanOfCaller);
  EXPECT_EQ(absl::BytesToHexString(span.span_id()), "0102030405060708");
  EXPECT_EQ(span.start_time_unix_nano(), UnixNanos(Now().system - milliseconds(20)));
  EXPECT_EQ(span.end_time_unix_nano(), UnixNanos(Now().system - milliseconds(10)));
  const std::map<std::string, std::string> expected = {
      {"rpc.system", "grpc"},           {"rpc.service", "stowage.v1.Scheduler"},
      {"rpc.method", "Solve"},          {"rpc.grpc.status_code", "0"},
      {"stowage.request_id", "job 17"}, {"stowage.client", "alice"},
      {"stowage.stages", "21"},         {"stowage.solver", "rotor"},
      {"stowage.origin", "COALESCED"}};
  EXPECT_EQ(AttributesOf(span), expected);
}

TEST(OtlpSpans, ItsStepsAreSpansWithin) {
  const otlp::ScopeSpans spans = SpansOf(SomeCall());
  ASSERT_EQ(spans.spans_size(), 2);
  const otlp::Span& step = spans.spans(1);
  EXPECT_EQ(step.name(), "stowage.solve");
  EXPECT_EQ(step.kind(), otlp::Span::SPAN_KIND_INTERNAL);
  EXPECT_EQ(step.trace_id(), spans.spans(0).trace_id());
  EXPECT_EQ(step.parent_span_id(), spans.spans(0).span_id());
  EXPECT_EQ(step.start_time_unix_nano(), UnixNanos(Now().system - milliseconds(19)));
  EXPECT_EQ(step.end_time_unix_nano(), UnixNanos(Now().system - milliseconds(11)));
  EXPECT_EQ(AttributesOf(step)["stowage.joined"], "true");
}

TEST(OtlpSpans, APartOfAStepIsASpanOfThatStep) {
  TracedCall call = SomeCall();
  CallSpan part = call.spans[0];
  part.solver = "rotor";
  part.outcome = "better";
  part.is_joined = false;
  part.id = 10;
  part.parent = 0;
  call.spans.push_back(part);
  const otlp::ScopeSpans spans = SpansOf(call);
  ASSERT_EQ(spans.spans_size(), 3);
  EXPECT_EQ(spans.spans(2).name(), "stowage.solve rotor");
  EXPECT_EQ(spans.spans(2).parent_span_id(), spans.spans(1).span_id());
  const std::map<std::string, std::string> expected = {{"stowage.solver", "rotor"},
                                                       {"stowage.outcome", "better"}};
  EXPECT_EQ(AttributesOf(spans.spans(2)), expected);
}

TEST(OtlpSpans, ATraceThatBeginsHereHasNoParent) {
  TracedCall call = SomeCall();
  call.ids.parent = "";
  EXPECT_EQ(SpansOf(call).spans(0).parent_span_id(), "");
}

TEST(OtlpSpans, OnlyErrorsOfTheServerAreErrors) {
  const auto code_with = [](const absl::Status& status) {
    TracedCall call = SomeCall();
    call.record.status = status;
    return SpansOf(call).spans(0).status().code();
  };
  EXPECT_EQ(code_with(absl::OkStatus()), otlp::Status::STATUS_CODE_UNSET);
  EXPECT_EQ(code_with(absl::InvalidArgumentError("")), otlp::Status::STATUS_CODE_UNSET);
  EXPECT_EQ(code_with(absl::UnavailableError("")), otlp::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(code_with(absl::InternalError("")), otlp::Status::STATUS_CODE_ERROR);
}

// Errors quote names of layers.
TEST(OtlpSpans, AnErrorHasItsCodeButNotItsMessage) {
  TracedCall call = SomeCall();
  call.record.status = absl::InvalidArgumentError("chain.stages[17] 'secret_layer'");
  const otlp::ExportTraceServiceRequest request = OtlpRequest({call}, {}, Now());
  EXPECT_EQ(AttributesOf(request.resource_spans(0).scope_spans(0).spans(0))["rpc.grpc.status_code"],
            "3");
  EXPECT_EQ(request.SerializeAsString().find("secret_layer"), std::string::npos);
}

// Collectors refuse a request with any other text.
TEST(OtlpSpans, TextsAreValidUtf8) {
  TracedCall call = SomeCall();
  call.record.client = "\xff";
  EXPECT_EQ(AttributesOf(SpansOf(call).spans(0))["stowage.client"], "\\xff");
}

TEST(OtlpSpans, TheProcessIsAResource) {
  const auto request = OtlpRequest({}, {.version = "1.2", .instance = "host:7"}, Now());
  const std::map<std::string, std::string> expected = {{"service.name", "stowage-server"},
                                                       {"service.version", "1.2"},
                                                       {"service.instance.id", "host:7"}};
  EXPECT_EQ(AttributesOf(request.resource_spans(0).resource()), expected);
}

// The bytes as opentelemetry-proto has them, field by field: a collector reads those.
TEST(OtlpSpans, HaveTheBytesOfOtlp) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans* const process = request.add_resource_spans();
  otlp::KeyValue* const attribute = process->mutable_resource()->add_attributes();
  attribute->set_key("k");
  attribute->mutable_value()->set_string_value("v");
  otlp::Span* const span = process->add_scope_spans()->add_spans();
  span->set_trace_id("T");
  span->set_span_id("S");
  span->set_parent_span_id("P");
  span->set_name("N");
  span->set_kind(otlp::Span::SPAN_KIND_SERVER);
  span->set_start_time_unix_nano(1);
  span->set_end_time_unix_nano(2);
  span->add_attributes()->mutable_value()->set_int_value(5);
  span->mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  const std::string resource = "0a0a0a080a016b12030a0176";
  const std::string ids = "0a0154120153220150";
  const std::string name_and_kind = "2a014e3002";
  const std::string times = "390100000000000000410200000000000000";
  const std::string attribute_and_status = "4a04120218057a021802";
  EXPECT_EQ(absl::BytesToHexString(request.SerializeAsString()),
            "0a3a" + resource + "122c122a" + ids + name_and_kind + times + attribute_and_status);
}

}  // namespace
}  // namespace stowage
