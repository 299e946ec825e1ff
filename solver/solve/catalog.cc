#include "solver/solve/catalog.h"

#include "solver/algorithms/auto/auto.h"
#include "solver/algorithms/flat/flat.h"
#include "solver/algorithms/flat/layers.h"
#include "solver/algorithms/modes/mixed_mode.h"
#include "solver/algorithms/offload/dynprog.h"
#include "solver/algorithms/offload/greedy.h"
#include "solver/algorithms/offload/vdnn.h"
#include "solver/algorithms/pofo/autocapper.h"
#include "solver/algorithms/pofo/opportunist.h"
#include "solver/algorithms/pofo/pofo.h"
#include "solver/algorithms/rematerialization/periodic.h"
#include "solver/algorithms/rematerialization/revolve.h"
#include "solver/algorithms/rematerialization/rotor.h"
#include "solver/algorithms/rematerialization/store_all.h"

namespace stowage {
namespace {

// The options that a solver reads. A cache key contains no others.
constexpr SolveOption kAutoOptions[] = {SolveOption::kMemorySlots, SolveOption::kSegments,
                                        SolveOption::kTimePrecision};
constexpr SolveOption kPeriodicOptions[] = {SolveOption::kSegments, SolveOption::kTimePrecision};
constexpr SolveOption kTimeOptions[] = {SolveOption::kTimePrecision};
constexpr SolveOption kSlotOptions[] = {SolveOption::kMemorySlots, SolveOption::kTimePrecision};

std::unique_ptr<Solver> MakeAutoOfAll();

// A change of a solver's answers raises its version, which makes cached answers unreachable. The
// field inside_of names the solver whose class contains all schedules of this one; the last one,
// asked_by_auto, is for classes that nobody needs who can run any schedule.
constexpr SolverInfo kSolvers[] = {
    {{.name = "auto",
      .summary = "the best schedule of all solvers below up to pofo, then local search from there",
      .guarantee =
          "never slower than any of them by the times of the instance (see time_precision), up to "
          "200 stages, or 600 without a link; the slower ones of them see longer chains with "
          "neighbouring stages merged",
      .complexity = "the sum of theirs, and a bounded search; seconds for 10,000 stages",
      .version = 9,
      .recomputes = true,
      .offloads = true,
      .mixes_modes = true,
      .drops_inputs = true,
      .chooses_save_options = true,
      .options = kAutoOptions},
     MakeAutoOfAll},
    {{.name = "store_all",
      .summary = "keeps everything: no recomputation, the most memory",
      .guarantee = "no schedule in eager mode is faster, if it fits",
      .complexity = "O(L) time and memory",
      .version = 1,
      .recomputes = false,
      .offloads = false,
      .options = {}},
     MakeStoreAll},
    {{.name = "periodic",
      .summary =
          "segments of equal length, of which only the input is kept (checkpoint_sequential)",
      .guarantee = "the fastest of all segment counts that fit",
      .complexity = "O(L^2) time, O(L) memory; O(L) time for one count",
      .version = 1,
      .recomputes = true,
      .offloads = false,
      .options = kPeriodicOptions},
     MakePeriodic},
    {{.name = "rotor",
      .summary = "optimal rematerialization of a heterogeneous chain (RR-9302)",
      .guarantee =
          "the fastest nested persistent schedule without offloading, up to the rounding of "
          "memory to slots; exact for short chains",
      .complexity = "O(L^3 S) time, O(L^2 S) memory",
      .version = 3,
      .recomputes = true,
      .offloads = false,
      .drops_inputs = true,
      .chooses_save_options = true,
      .options = kSlotOptions},
     MakeRotor},
    {{.name = "revolve",
      .summary = "keeps outputs only, as automatic differentiation does (RR-9302, section 5.3)",
      .guarantee =
          "the fastest nested persistent schedule that saves a stage only right before its "
          "backward, up to the rounding of memory to slots; exact for short chains",
      .complexity = "O(L^3 S) time, O(L^2 S) memory",
      .version = 1,
      .recomputes = true,
      .offloads = false,
      .drops_inputs = true,
      .chooses_save_options = true,
      .options = kSlotOptions},
     MakeRevolve,
     "rotor"},
    {{.name = "mixed_mode",
      .summary = "eager or graph mode, sub-sequence by sub-sequence (Mixed Mode), by convexity",
      .guarantee =
          "unless a note says otherwise, the fastest split into modes and fixed shares of the "
          "memory, up to the rounding of memory to slots; auto shares memory freely; rotor for "
          "chains without graph costs",
      .complexity = "O(L log L log S) a price, some 20 prices, and O(L^2 S) for the proof, after "
                    "O(L^3 S) for tables of O(L^2 S)",
      .version = 2,
      .recomputes = true,
      .offloads = false,
      .mixes_modes = true,
      .drops_inputs = true,
      .chooses_save_options = true,
      .options = kSlotOptions},
     MakeMixedMode},
    {{.name = "mixed_mode_exact",
      .summary = "mixed_mode with all splits, modes and shares tried",
      .guarantee = "the fastest split into modes and fixed shares of the memory, up to the "
                   "rounding of memory to slots; rotor for chains without graph costs",
      .complexity = "O(L^2 S^2) time after O(L^3 S) for tables of O(L^2 S)",
      .version = 2,
      .recomputes = true,
      .offloads = false,
      .mixes_modes = true,
      .drops_inputs = true,
      .chooses_save_options = true,
      .options = kSlotOptions},
     MakeMixedModeExact,
     "mixed_mode"},
    {{.name = "offload_greedy",
      .summary = "saves everything and offloads the first values of the chain (Euro-Par 2020)",
      .guarantee = "optimal without recomputation if copies could stop anywhere",
      .complexity = "O(L) placements of O(L) each",
      .version = 1,
      .recomputes = false,
      .offloads = true,
      .options = kTimeOptions},
     MakeOffloadGreedy,
     "pofo"},
    {{.name = "offload_vdnn",
      .summary = "saves everything and offloads what long forwards read (VDNN's rule)",
      .guarantee = "none",
      .complexity = "2 L placements of O(L) each",
      .version = 1,
      .recomputes = false,
      .offloads = true,
      .options = kTimeOptions},
     MakeOffloadVdnn,
     "pofo"},
    {{.name = "offload_dynprog",
      .summary = "saves everything and offloads what its dynamic program chooses (Euro-Par 2020)",
      .guarantee =
          "up to rounding, optimal without recomputation if copies could be interrupted and freed "
          "memory as they run",
      .complexity = "O(L) times the states kept",
      .version = 1,
      .recomputes = false,
      .offloads = true,
      .options = kSlotOptions},
     MakeOffloadDynprog,
     "pofo"},
    {{.name = "opportunist",
      .summary = "offloads whenever the link is free and recomputes the rest (POFO, section 5.1)",
      .guarantee = "none",
      .complexity = "O(L^3) time at worst",
      .version = 1,
      .recomputes = true,
      .offloads = true,
      .options = kTimeOptions},
     MakeOpportunist,
     "pofo"},
    {{.name = "autocapper",
      .summary = "rotor for more memory, made to fit by offloading (POFO, section 5.1)",
      .guarantee = "none",
      .complexity = "rotor's, and 40 placements",
      .version = 2,
      .recomputes = true,
      .offloads = true,
      .drops_inputs = true,
      .chooses_save_options = true,
      .options = kSlotOptions},
     MakeAutocapper},
    {{.name = "pofo",
      .summary = "recomputation and offloading chosen together (NeurIPS 2021)",
      .guarantee =
          "close to the fastest if copies freed memory as they run; never slower than rotor",
      .complexity = "O(L^2) times the states kept, after O(L^3) for the ways to recompute",
      .version = 5,
      .recomputes = true,
      .offloads = true,
      .drops_inputs = true,
      .chooses_save_options = true,
      .options = kSlotOptions},
     MakePofo},
    {{.name = "flat",
      .summary = "stages saved, and segments recomputed once: what frameworks can express",
      .guarantee =
          "the fastest flat plan, exact to the byte, unless a note says by how much it was "
          "rounded; segments of limited length beyond 2,000 stages; with a link what a piece "
          "leaves "
          "may be offloaded, and a note says where that was not proved, and how far it may be from "
          "the fastest",
      .complexity = "O(L^2) times the labels kept at a stage, 16 to 8,192; with a link a bounded "
                    "search besides",
      .version = 4,
      .recomputes = true,
      .offloads = true,
      .chooses_save_options = true,
      .options = kTimeOptions},
     MakeFlat,
     "pofo",
     /*asked_by_auto=*/false},
    {{.name = "per_layer",
      .summary = "each layer (fusion_group, or a stage) saved, or recomputed as one segment",
      .guarantee = "the fastest choice of layers, exact to the byte, unless a note says by how "
                   "much it was rounded; with a link as flat",
      .complexity = "O(L) times the labels kept at a layer, 16 to 8,192; with a link a bounded "
                    "search besides",
      .version = 4,
      .recomputes = true,
      .offloads = true,
      .chooses_save_options = true,
      .options = kTimeOptions},
     MakePerLayer,
     "flat",
     /*asked_by_auto=*/false},
    {{.name = "uniform",
      .summary = "all layers recomputed in segments of equally many (Megatron-LM, uniform)",
      .guarantee = "the fastest of all numbers of layers that fit, and of recomputing nothing",
      .complexity = "O(L) for each number",
      .version = 1,
      .recomputes = true,
      .offloads = false,
      .options = kTimeOptions},
     MakeUniform,
     "flat",
     /*asked_by_auto=*/false},
    {{.name = "block",
      .summary = "the first layers recomputed, each by itself, the rest saved (Megatron-LM, block)",
      .guarantee = "the fastest of all numbers of layers that fit, and of recomputing nothing",
      .complexity = "O(L) for each number",
      .version = 2,
      .recomputes = true,
      .offloads = false,
      .chooses_save_options = true,
      .options = kTimeOptions},
     MakeBlock,
     "flat",
     /*asked_by_auto=*/false},
    {{.name = "every_nth",
      .summary = "every second, third, ... layer recomputed, the rest saved",
      .guarantee = "the fastest of all distances that fit, and of recomputing nothing",
      .complexity = "O(L) for each distance",
      .version = 2,
      .recomputes = true,
      .offloads = false,
      .chooses_save_options = true,
      .options = kTimeOptions},
     MakeEveryNth,
     "flat",
     /*asked_by_auto=*/false},
};

std::unique_ptr<Solver> MakeAutoOfAll() { return MakeAuto(kSolvers); }

}  // namespace

std::span<const SolverInfo> AllSolvers() { return kSolvers; }

const SolverInfo* FindSolver(absl::string_view name) {
  if (name.empty()) name = "auto";
  for (const SolverInfo& info : kSolvers) {
    if (name == info.description.name) return &info;
  }
  return nullptr;
}

}  // namespace stowage
