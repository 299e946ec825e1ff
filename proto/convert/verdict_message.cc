#include "proto/convert/verdict_message.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/convert/answer_message.h"
#include "proto/convert/chain_message.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

v1::Verdict::Fit ToMessage(Verdict::Fit fit) {
  switch (fit) {
    case Verdict::Fit::kFits:
      return v1::Verdict::FITS;
    case Verdict::Fit::kFitsWithPlan:
      return v1::Verdict::FITS_WITH_PLAN;
    case Verdict::Fit::kDoesNotFit:
      break;
  }
  return v1::Verdict::DOES_NOT_FIT;
}

absl::StatusOr<Verdict::Fit> FromMessage(v1::Verdict::Fit fit) {
  switch (fit) {
    case v1::Verdict::FITS:
      return Verdict::Fit::kFits;
    case v1::Verdict::FITS_WITH_PLAN:
      return Verdict::Fit::kFitsWithPlan;
    case v1::Verdict::DOES_NOT_FIT:
      return Verdict::Fit::kDoesNotFit;
    default:
      return absl::DataLossError(absl::StrCat("verdicts.fit: is ", static_cast<int>(fit),
                                              ", which this version does not have"));
  }
}

absl::StatusOr<Verdict> FromMessage(const v1::Verdict& message) {
  Verdict verdict{.device = static_cast<size_t>(message.device()),
                  .peak_bytes = message.peak_bytes(),
                  .peak_outside_layers = message.peak_outside_layers()};
  ASSIGN_OR_RETURN(verdict.fit, FromMessage(message.fit()));
  if (message.has_plan() != (verdict.fit == Verdict::Fit::kFitsWithPlan)) {
    return absl::DataLossError("verdicts.plan: is not what the verdict says");
  }
  if (message.has_minimum_memory_bytes()) {
    verdict.minimum_memory_bytes = message.minimum_memory_bytes();
  }
  if (message.has_plan()) {
    ASSIGN_OR_RETURN(Answer plan, AnswerFromMessage(message.plan()));
    verdict.plan = std::make_shared<const Answer>(std::move(plan));
    verdict.platform = stowage::FromMessage(message.plan().platform());
  }
  return verdict;
}

}  // namespace

v1::Verdict ToMessage(const Verdict& verdict) {
  v1::Verdict message;
  message.set_device(static_cast<int>(verdict.device));
  message.set_fit(ToMessage(verdict.fit));
  message.set_peak_bytes(verdict.peak_bytes);
  message.set_peak_outside_layers(verdict.peak_outside_layers);
  if (verdict.minimum_memory_bytes.has_value()) {
    message.set_minimum_memory_bytes(*verdict.minimum_memory_bytes);
  }
  if (verdict.plan != nullptr) {
    *message.mutable_plan() = ToMessage(SolveResult{verdict.plan, Origin()}, verdict.platform);
  }
  return message;
}

v1::AdmitResponse ToMessage(const std::vector<Verdict>& verdicts) {
  v1::AdmitResponse message;
  for (const Verdict& verdict : verdicts) *message.add_verdicts() = ToMessage(verdict);
  return message;
}

absl::StatusOr<std::vector<Verdict>> FromMessage(const v1::AdmitResponse& message) {
  std::vector<Verdict> verdicts;
  for (const v1::Verdict& in : message.verdicts()) {
    ASSIGN_OR_RETURN(Verdict verdict, FromMessage(in));
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace stowage
