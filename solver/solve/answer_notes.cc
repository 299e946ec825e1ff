#include "solver/solve/answer_notes.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace stowage {
namespace {

void NoteUnusedLink(const SolveRequest& request, const SolverInfo& info, Answer* answer) {
  if (!request.platform.has_link() || info.description.offloads) return;
  answer->explanation.notes.push_back(
      absl::StrCat(info.description.name, " does not offload: the bandwidths make no difference"));
}

void NoteUnusedModes(const ChainUnits& units, const SolverInfo& info, Answer* answer) {
  if (info.description.mixes_modes || !units.HasGraph()) return;
  answer->explanation.notes.push_back(
      absl::StrCat(info.description.name,
                   " runs every stage in eager mode: the graph costs make no difference; auto and "
                   "mixed_mode weigh them"));
}

void NoteUnusedInputs(const SolveRequest& request, const SolverInfo& info, Answer* answer) {
  if (info.description.drops_inputs || !request.chain.has_unread_inputs()) return;
  answer->explanation.notes.push_back(
      absl::StrCat(info.description.name,
                   " keeps every input until the backward of its stage: input_unread makes no "
                   "difference; auto and rotor weigh it"));
}

void NoteUnusedSaveOptions(const SolveRequest& request, const SolverInfo& info, Answer* answer) {
  if (info.description.chooses_save_options || !request.chain.has_save_options()) return;
  answer->explanation.notes.push_back(
      absl::StrCat(info.description.name,
                   " saves every stage in its own way: save_options make no difference; auto and "
                   "rotor weigh them"));
}

}  // namespace

void NoteClass(Answer* answer) {
  if (answer->guarantee != Guarantee::kBestOfClass) return;
  const SolverInfo* info = FindSolver(answer->solver);
  if (info == nullptr) return;
  std::string note = absl::StrCat(answer->solver, " finds ", info->description.guarantee,
                                  "; schedules of other kinds may be faster");
  std::vector<std::string>& notes = answer->explanation.notes;
  if (!absl::c_linear_search(notes, note)) notes.push_back(std::move(note));
}

void NoteUnused(const SolveRequest& request, const ChainUnits& units, const SolverInfo& info,
                Answer* answer) {
  NoteUnusedLink(request, info, answer);
  NoteUnusedModes(units, info, answer);
  NoteUnusedInputs(request, info, answer);
  NoteUnusedSaveOptions(request, info, answer);
}

}  // namespace stowage
