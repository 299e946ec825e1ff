#include "solver/algorithms/transfers/forward_parts.h"

#include <iterator>
#include <utility>

namespace stowage {

ForwardPart SavedPart(int stage, PartInput input) { return {stage, stage, true, input, nullptr}; }

ForwardPart PassedPart(int first, int last, std::vector<Operation> recomputation, PartInput input) {
  return {first, last, false, input,
          std::make_shared<const std::vector<Operation>>(std::move(recomputation))};
}

namespace {

// The recomputation at the end of `operations` leaves the part's input to its producer's backward:
// it may have been read from parts before which the producer was not saved.
void KeepInput(const ForwardPart& part, std::vector<Operation>* operations) {
  for (size_t i = operations->size() - part.recomputation->size(); i < operations->size(); ++i) {
    Operation& operation = (*operations)[i];
    if (operation.kind == OperationKind::kForwardSaveDiscard && operation.stage == part.first) {
      operation.kind = OperationKind::kForwardSave;
    }
  }
}

}  // namespace

void AssembleParts(const Chain& chain, const std::vector<ForwardPart>& parts,
                   AssembledSequence* result) {
  std::vector<Operation>& operations = result->sequence.operations;
  operations.clear();
  std::vector<int> reads;  // by part: the operation of the forward phase that reads its input
  // Forward phase.
  for (const ForwardPart& part : parts) {
    reads.push_back(static_cast<int>(operations.size()));
    operations.push_back(
        {part.saved ? OperationKind::kForwardSave : OperationKind::kForwardCheckpoint, part.first});
    operations.back().save_option = part.save_option;
    for (int l = part.first + 1; l <= part.last; ++l) {
      operations.push_back({OperationKind::kForwardDiscard, l});
    }
  }
  // Backward phase.
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->saved) {
      operations.push_back({OperationKind::kBackward, part->first});
    } else {
      operations.insert(operations.end(), part->recomputation->begin(), part->recomputation->end());
      const auto before = std::next(part);
      if (before != parts.rend() && before->saved) KeepInput(*part, &operations);
    }
  }
  // The input of an offloaded part leaves in the gap that follows its use in the forward phase.
  FindGaps(chain, &result->sequence);
  std::vector<bool> leaves(operations.size(), false);  // by operation: its input is offloaded
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].input == PartInput::kOffloaded) leaves[static_cast<size_t>(reads[p])] = true;
  }
  result->choices.assign(result->sequence.gaps.size(), GapChoice{});
  for (size_t g = 0; g < result->choices.size(); ++g) {
    const Gap& gap = result->sequence.gaps[g];
    if (gap.after < 0 || !leaves[static_cast<size_t>(gap.after)]) continue;
    const Operation& reader = operations[static_cast<size_t>(gap.after)];
    result->choices[g].moved = gap.value == reader.stage - 1;
  }
}

// The forward phase fixes the parts; the backward phase must then recompute them from the last to
// the first, each within its own stages.
std::optional<std::vector<ForwardPart>> PartsOf(const Chain& chain,
                                                const std::vector<Operation>& operations) {
  const int loss = chain.length() + 1;
  std::vector<ForwardPart> parts;
  size_t next = 0;
  for (; next < operations.size() && operations[next].kind != OperationKind::kBackward; ++next) {
    const Operation& operation = operations[next];
    const int expected = parts.empty() ? 1 : parts.back().last + 1;
    if (operation.stage != expected) return std::nullopt;
    // Parts keep their inputs.
    if (operation.kind == OperationKind::kForwardSaveDiscard) return std::nullopt;
    if (operation.kind == OperationKind::kForwardDiscard) {
      // FORWARD_DISCARD would drop the value of a saved stage, which no part does.
      if (parts.empty() || parts.back().saved) return std::nullopt;
      parts.back().last = operation.stage;
    } else {
      const bool saved = operation.kind == OperationKind::kForwardSave;
      parts.push_back({operation.stage, operation.stage, saved, PartInput::kKept, nullptr,
                       operation.save_option});
    }
  }
  if (parts.empty() || parts.back().last != loss || !parts.back().saved) return std::nullopt;
  // Each part ends with the backward of its first stage.
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    std::vector<Operation> recomputation;
    do {
      if (next == operations.size()) return std::nullopt;
      const Operation& operation = operations[next++];
      if (operation.stage < part->first || operation.stage > part->last) return std::nullopt;
      recomputation.push_back(operation);
    } while (recomputation.back() != Operation{OperationKind::kBackward, part->first});
    if (!part->saved) *part = PassedPart(part->first, part->last, std::move(recomputation));
  }
  if (next != operations.size()) return std::nullopt;
  return parts;
}

}  // namespace stowage
