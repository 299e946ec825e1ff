#include "tests/support/chains.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace stowage {
namespace {

constexpr absl::string_view kLetters = "SCDBORPX";  // in the order of OperationKind

int64_t Size() { return *rc::gen::inRange<int64_t>(0, 7); }
double Seconds() { return static_cast<double>(*rc::gen::inRange(0, 6)); }
// Two thirds of the optional fields are zero: with overheads at every stage only the largest would
// matter.
int64_t Overhead() {
  return *rc::gen::oneOf(rc::gen::just<int64_t>(0), rc::gen::just<int64_t>(0),
                         rc::gen::inRange<int64_t>(0, 10));
}

// About every third way to save has one.
std::optional<int64_t> SaveOverhead(const Stage& stage, int64_t saved_bytes) {
  if (*rc::gen::inRange(0, 3) != 0) return std::nullopt;
  const int64_t other = stage.output_bytes + stage.forward_overhead_bytes;
  return std::max<int64_t>(0, other - saved_bytes) + Overhead() / 2;
}

Stage SmallStage() {
  Stage stage;
  stage.forward_seconds = Seconds();
  stage.backward_seconds = Seconds();
  stage.output_bytes = Size();
  stage.saved_bytes = stage.output_bytes +
                      *rc::gen::oneOf(rc::gen::just<int64_t>(0), rc::gen::inRange<int64_t>(0, 7));
  if (*rc::gen::arbitrary<bool>()) stage.gradient_bytes = Size();
  stage.forward_overhead_bytes = Overhead();
  stage.backward_overhead_bytes = Overhead();
  stage.no_recompute = *rc::gen::inRange(0, 8) == 0;
  stage.save_overhead_bytes = SaveOverhead(stage, stage.saved_bytes);
  return stage;
}

// Another way to save the stage. Now and then it gains or costs nothing.
SaveOption Way(const Stage& stage) {
  SaveOption option;
  option.saved_bytes = *rc::gen::inRange(stage.output_bytes, stage.saved_bytes + 1);
  option.backward_seconds = stage.backward_seconds + Seconds();
  option.backward_overhead_bytes = Overhead();
  option.save_overhead_bytes = SaveOverhead(stage, option.saved_bytes);
  if (*rc::gen::arbitrary<bool>()) option.kept = {"aten.mm.default#0", "aten.mm.default#2"};
  if (*rc::gen::arbitrary<bool>()) option.rerun = {"mlp"};
  return option;
}

}  // namespace

void ForgetSaveOverheads(Chain* chain) {
  for (Stage& stage : chain->stages) stage.save_overhead_bytes.reset();
  chain->loss.save_overhead_bytes.reset();
}

void RaiseSaveOverheads(Chain* chain) {
  const auto raise = [](Stage& stage) {
    const auto least = [&](int64_t saved_bytes) {
      return stage.output_bytes + stage.forward_overhead_bytes - saved_bytes;
    };
    if (stage.save_overhead_bytes.has_value()) {
      stage.save_overhead_bytes = std::max(*stage.save_overhead_bytes, least(stage.saved_bytes));
    }
    for (SaveOption& option : stage.save_options) {
      if (!option.save_overhead_bytes.has_value()) continue;
      option.save_overhead_bytes = std::max(*option.save_overhead_bytes, least(option.saved_bytes));
    }
  };
  for (Stage& stage : chain->stages) raise(stage);
  raise(chain->loss);
}

Schedule Ops(absl::string_view text) {
  Schedule schedule;
  for (absl::string_view token : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    Operation operation;
    if (absl::ConsumePrefix(&token, "g")) operation.mode = Mode::kGraph;
    const size_t kind = kLetters.find(token[0]);
    operation.kind = static_cast<OperationKind>(kind);
    const std::pair<absl::string_view, absl::string_view> way =
        absl::StrSplit(token.substr(1), absl::MaxSplits(':', 1));
    const std::pair<absl::string_view, absl::string_view> range =
        absl::StrSplit(way.first, absl::MaxSplits('-', 1));
    bool sound = kind != absl::string_view::npos;
    if (!way.second.empty()) sound = absl::SimpleAtoi(way.second, &operation.save_option);
    if (range.second.empty()) {
      sound = sound && absl::SimpleAtoi(range.first, &operation.stage);
    } else {
      sound = sound && absl::SimpleAtoi(range.first, &operation.first_stage) &&
              absl::SimpleAtoi(range.second, &operation.stage);
    }
    assert(sound);
    (void)sound;
    schedule.operations.push_back(operation);
  }
  return schedule;
}

Platform Memory(int64_t bytes) {
  Platform platform;
  platform.memory_bytes = bytes;
  return platform;
}

Chain EqualChain(int stages) {
  Chain chain;
  chain.input_bytes = 10;
  Stage stage;
  stage.forward_seconds = 1;
  stage.backward_seconds = 2;
  stage.output_bytes = 10;
  stage.saved_bytes = 30;
  chain.stages.assign(static_cast<size_t>(stages), stage);
  return chain;
}

Chain NonPersistentChain(int n) {
  Chain chain;
  const int length = n + 4;
  chain.input_bytes = 1;
  chain.input_gradient_bytes = 0;
  for (int l = 1; l <= length; ++l) {
    Stage stage;
    stage.output_bytes = l == 1 ? 1 : l == 2 ? 2 : l < length ? 3 : 4;
    stage.saved_bytes = stage.output_bytes;
    stage.gradient_bytes = 0;
    stage.forward_seconds = l == 1 ? n - 1 : l == 2 ? 2 : 0;
    chain.stages.push_back(stage);
  }
  return chain;
}

rc::Gen<Chain> SmallChains(int max_stages) {
  // Without the resize, RapidCheck's first cases are almost empty chains.
  return rc::gen::resize(rc::kNominalSize, rc::gen::exec([max_stages] {
                           Chain chain;
                           chain.input_bytes = Size();
                           if (*rc::gen::arbitrary<bool>()) chain.input_gradient_bytes = Size();
                           const int stages = *rc::gen::inRange(1, max_stages + 1);
                           for (int l = 1; l <= stages; ++l) chain.stages.push_back(SmallStage());
                           if (*rc::gen::arbitrary<bool>()) chain.loss = SmallStage();
                           return chain;
                         }));
}

rc::Gen<Chain> SmallReplayChains(int max_stages) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::exec([max_stages] {
                           Chain chain = *SmallChains(max_stages);
                           for (Stage& stage : chain.stages) {
                             if (stage.no_recompute || *rc::gen::inRange(0, 4) == 0) continue;
                             stage.replay_seconds = std::min(stage.forward_seconds, Seconds());
                           }
                           return chain;
                         }));
}

rc::Gen<Chain> SmallUnreadChains(int max_stages) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::exec([max_stages] {
                           Chain chain = *SmallReplayChains(max_stages);
                           for (Stage& stage : chain.stages) {
                             stage.input_unread = *rc::gen::arbitrary<bool>();
                           }
                           chain.loss.input_unread = *rc::gen::arbitrary<bool>();
                           return chain;
                         }));
}

rc::Gen<Chain> SmallOptionChains(int max_stages) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::exec([max_stages] {
                           Chain chain = *SmallUnreadChains(max_stages);
                           const auto add = [](Stage& stage) {
                             const int count = *rc::gen::inRange(0, 3);
                             for (int k = 0; k < count; ++k)
                               stage.save_options.push_back(Way(stage));
                           };
                           for (Stage& stage : chain.stages) add(stage);
                           add(chain.loss);
                           return chain;
                         }));
}

rc::Gen<Chain> SmallWayChains(int max_stages) {
  return rc::gen::map(SmallOptionChains(max_stages), [](Chain chain) {
    for (Stage& stage : chain.stages) stage.input_unread = false;
    chain.loss.input_unread = false;
    return chain;
  });
}

namespace {

// Adds graph costs to stages [first, end), which have none. The saved bytes of the group include
// the output of its last stage.
void AddGraphCosts(Chain& chain, size_t first, size_t end) {
  const int64_t output = chain.stages[end - 1].output_bytes;
  for (size_t i = first; i < end; ++i) {
    GraphCosts costs;
    costs.forward_seconds = Seconds();
    costs.backward_seconds = Seconds();
    costs.saved_bytes = Size() + (i + 1 == end ? output : 0);
    costs.forward_overhead_bytes = Overhead();
    costs.backward_overhead_bytes = Overhead();
    chain.stages[i].graph = costs;
  }
}

}  // namespace

rc::Gen<Chain> SmallModeChains(int max_stages) {
  return rc::gen::resize(
      rc::kNominalSize, rc::gen::exec([max_stages] {
        Chain chain = *SmallChains(max_stages);
        ForgetSaveOverheads(&chain);
        chain.graph_entry_seconds = *rc::gen::inRange(0, 4);
        for (size_t first = 0; first < chain.stages.size();) {
          const size_t end = std::min(chain.stages.size(), first + *rc::gen::inRange<size_t>(1, 4));
          const std::string group = end - first > 1 ? "group" + std::to_string(first) : "";
          for (size_t i = first; i < end; ++i) {
            chain.stages[i].fusion_group = group;
            chain.stages[i].control_flow = *rc::gen::inRange(0, 8) == 0;
          }
          if (*rc::gen::inRange(0, 8) != 0) AddGraphCosts(chain, first, end);
          first = end;
        }
        if (*rc::gen::arbitrary<bool>()) {
          chain.loss.graph =
              GraphCosts{Seconds(), Seconds(), chain.loss.output_bytes + Size(), 0, 0};
        }
        return chain;
      }));
}

std::ostream& operator<<(std::ostream& out, const Chain& chain) {
  out << "chain: a0=" << chain.input_bytes << " d0=" << chain.gradient_bytes(0);
  for (int l = 1; l <= chain.length() + 1; ++l) {
    const Stage& stage = chain.stage(l);
    out << "\n  " << l << ": uF=" << stage.forward_seconds << " uB=" << stage.backward_seconds
        << " a=" << stage.output_bytes << " saved=" << stage.saved_bytes
        << " d=" << chain.gradient_bytes(l) << " oF=" << stage.forward_overhead_bytes
        << " oB=" << stage.backward_overhead_bytes;
    if (stage.save_overhead_bytes.has_value()) out << " oS=" << *stage.save_overhead_bytes;
    if (stage.replay_seconds.has_value()) out << " uR=" << *stage.replay_seconds;
    out << (stage.input_unread ? " input_unread" : "")
        << (stage.no_recompute ? " no_recompute" : "") << (stage.no_offload ? " no_offload" : "")
        << (stage.control_flow ? " control_flow" : "");
    for (const SaveOption& option : stage.save_options) {
      out << " or saved=" << option.saved_bytes << " uB=" << option.backward_seconds
          << " oB=" << option.backward_overhead_bytes;
      if (option.save_overhead_bytes.has_value()) out << " oS=" << *option.save_overhead_bytes;
    }
    if (!stage.fusion_group.empty()) out << " of " << stage.fusion_group;
    if (!stage.graph.has_value()) continue;
    out << " graph: uF=" << stage.graph->forward_seconds << " uB=" << stage.graph->backward_seconds
        << " saved=" << stage.graph->saved_bytes << " oF=" << stage.graph->forward_overhead_bytes
        << " oB=" << stage.graph->backward_overhead_bytes;
  }
  return out << "\n";
}

std::ostream& operator<<(std::ostream& out, const Schedule& schedule) {
  for (const Operation& operation : schedule.operations) {
    if (operation.mode == Mode::kGraph) out << 'g';
    out << kLetters[static_cast<size_t>(operation.kind)];
    if (operation.first() != operation.stage) out << operation.first() << '-';
    out << operation.stage;
    if (operation.save_option != 0) out << ':' << operation.save_option;
    out << ' ';
  }
  return out;
}

}  // namespace stowage
