#include "proto/convert/request_message.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/convert/chain_message.h"
#include "proto/convert/schedule_message.h"

namespace stowage {
namespace {

// Unset time_precision and use_cache take the service's defaults here, so that requests with an
// unset field and with its default have the same cache keys.
SolveOptions OptionsFrom(const v1::SolveOptions& message) {
  SolveOptions options;
  options.memory_slots = message.memory_slots();
  options.segments = message.segments();
  options.time_precision =
      message.has_time_precision() ? message.time_precision() : kDefaultTimePrecision;
  options.report_rounding_loss = message.report_rounding_loss();
  options.use_cache = !message.has_use_cache() || message.use_cache();
  options.time_budget_seconds = message.time_budget_seconds();
  return options;
}

v1::SolveOptions OptionsMessage(const SolveOptions& options) {
  v1::SolveOptions message;
  message.set_memory_slots(options.memory_slots);
  message.set_segments(options.segments);
  message.set_time_precision(options.time_precision);
  message.set_report_rounding_loss(options.report_rounding_loss);
  if (!options.use_cache) message.set_use_cache(false);
  message.set_time_budget_seconds(options.time_budget_seconds);
  return message;
}

// The fields that SolveRequest and FrontierRequest have in common.
template <typename Message, typename Request>
void FillFromMessage(const Message& message, Request* request) {
  request->chain = FromMessage(message.chain());
  request->platform = FromMessage(message.platform());
  request->solver = message.solver();
  request->options = OptionsFrom(message.options());
}

template <typename Request, typename Message>
void FillMessage(const Request& request, Message* message) {
  *message->mutable_chain() = ToMessage(request.chain);
  *message->mutable_platform() = ToMessage(request.platform);
  message->set_solver(request.solver);
  *message->mutable_options() = OptionsMessage(request.options);
}

}  // namespace

SolveRequest FromMessage(const v1::SolveRequest& message, std::vector<FieldViolation>* violations) {
  *violations = MissingFields(message.platform());
  SolveRequest request;
  FillFromMessage(message, &request);
  return request;
}

// No violations: a frontier does not need platform.memory_bytes.
FrontierRequest FromMessage(const v1::FrontierRequest& message) {
  FrontierRequest request;
  FillFromMessage(message, &request);
  request.points = message.points();
  request.budgets.assign(message.memory_bytes().begin(), message.memory_bytes().end());
  return request;
}

SimulateRequest FromMessage(const v1::SimulateRequest& message,
                            std::vector<FieldViolation>* violations) {
  *violations = MissingFields(message.platform());
  return {FromMessage(message.chain()), FromMessage(message.platform()),
          FromMessage(message.schedule(), violations)};
}

AdmitRequest FromMessage(const v1::AdmitRequest& message, std::vector<FieldViolation>* violations) {
  AdmitRequest request{.job = FromMessage(message.job(), violations),
                       .devices = {},
                       .solver = message.solver(),
                       .options = OptionsFrom(message.options())};
  for (const v1::Device& device : message.devices()) {
    const std::string path = absl::StrCat("devices[", request.devices.size(), "]");
    Append(Within(path, MissingFields(device.platform())), violations);
    request.devices.push_back({FromMessage(device.platform()), device.price()});
  }
  return request;
}

v1::SolveRequest ToMessage(const SolveRequest& request) {
  v1::SolveRequest message;
  FillMessage(request, &message);
  return message;
}

v1::FrontierRequest ToMessage(const FrontierRequest& request) {
  v1::FrontierRequest message;
  FillMessage(request, &message);
  message.set_points(request.points);
  message.mutable_memory_bytes()->Add(request.budgets.begin(), request.budgets.end());
  return message;
}

v1::SimulateRequest ToMessage(const SimulateRequest& request) {
  v1::SimulateRequest message;
  *message.mutable_chain() = ToMessage(request.chain);
  *message.mutable_platform() = ToMessage(request.platform);
  *message.mutable_schedule() = ToMessage(request.schedule);
  return message;
}

v1::AdmitRequest ToMessage(const AdmitRequest& request) {
  v1::AdmitRequest message;
  *message.mutable_job() = ToMessage(request.job);
  for (const JobDevice& device : request.devices) {
    v1::Device& added = *message.add_devices();
    *added.mutable_platform() = ToMessage(device.platform);
    added.set_price(device.price);
  }
  message.set_solver(request.solver);
  *message.mutable_options() = OptionsMessage(request.options);
  return message;
}

}  // namespace stowage
