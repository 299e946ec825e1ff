#include "solver/algorithms/kept_operators.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stowage {
namespace {

constexpr int64_t kSteps = 256;  // of bytes

// The operators that are kept, of the last ones, as a list that others continue.
struct Link {
  size_t number = 0;
  std::shared_ptr<const Link> next = nullptr;
};

struct Label {
  int64_t bytes = 0;
  double seconds = 0;
  std::shared_ptr<const Link> kept = nullptr;
};

// By bytes, ascending; seconds descend.
using Labels = std::vector<Label>;

Labels Quickest(Labels labels, int64_t most_bytes) {
  std::sort(labels.begin(), labels.end(), [](const Label& one, const Label& other) {
    return std::pair(one.bytes, one.seconds) < std::pair(other.bytes, other.seconds);
  });
  Labels quickest;
  const int64_t step = most_bytes / kSteps + 1;
  for (Label& label : labels) {
    if (label.bytes > most_bytes) break;
    if (!quickest.empty() && label.seconds >= quickest.back().seconds) continue;
    // Of one step the last is the quickest; the first of all is the one with the fewest bytes.
    if (quickest.size() > 1 && quickest.back().bytes / step == label.bytes / step) {
      quickest.pop_back();
    }
    quickest.push_back(std::move(label));
  }
  return quickest;
}

void Add(const Labels& from, const Label& change, Labels* to) {
  for (const Label& label : from) {
    to->push_back({label.bytes + change.bytes, label.seconds + change.seconds, label.kept});
  }
}

void AddKept(const Labels& from, size_t number, int64_t bytes, Labels* to) {
  for (const Label& label : from) {
    to->push_back({label.bytes + bytes, label.seconds,
                   std::make_shared<const Link>(Link{number, label.kept})});
  }
}

std::string NameOf(const std::vector<OperatorCost>& costs, const std::set<size_t>& kept) {
  struct Count {
    std::string name;
    int kept = 0;
    int all = 0;
  };
  std::vector<Count> counts;  // in order of first appearance
  for (size_t i = 0; i < costs.size(); ++i) {
    auto found = std::find_if(counts.begin(), counts.end(),
                              [&](const Count& count) { return count.name == costs[i].name; });
    if (found == counts.end()) found = counts.insert(found, {costs[i].name});
    ++found->all;
    found->kept += kept.count(i) > 0 ? 1 : 0;
  }
  std::vector<std::string> texts;
  for (const Count& count : counts) {
    if (count.kept == 0) continue;
    texts.push_back(count.kept == count.all
                        ? count.name
                        : absl::StrCat(count.kept, " of ", count.all, " ", count.name));
  }
  return absl::StrCat("keep ", absl::StrJoin(texts, "+"));
}

}  // namespace

std::vector<KeptChoice> ChooseKept(const std::vector<OperatorCost>& costs, int64_t most_bytes,
                                   size_t count) {
  Labels ended = {Label()};  // E, by the header's names
  Labels running;            // R
  for (size_t i = costs.size(); i-- > 0;) {
    const OperatorCost& cost = costs[i];
    const Label rerun = {0, cost.seconds};
    Labels now_ended;
    Labels now_running;
    Add(running, rerun, &now_running);
    if (cost.saves) {
      Add(ended, rerun, &now_running);
    } else {
      now_ended = ended;
    }
    if (cost.kept) {
      AddKept(running, i, cost.output_bytes + cost.inner_bytes, &now_running);
      AddKept(ended, i, cost.inner_bytes, cost.saves_argument ? &now_running : &now_ended);
    }
    ended = Quickest(std::move(now_ended), most_bytes);
    running = Quickest(std::move(now_running), most_bytes);
  }
  running.insert(running.end(), ended.begin(), ended.end());
  const Labels all = Quickest(std::move(running), most_bytes);

  std::vector<KeptChoice> choices;
  for (size_t c = count; c > 0 && !all.empty(); --c) {
    const int64_t bytes = most_bytes * static_cast<int64_t>(c) / static_cast<int64_t>(count + 1);
    const auto above =
        std::upper_bound(all.begin(), all.end(), bytes,
                         [](int64_t limit, const Label& label) { return limit < label.bytes; });
    if (above == all.begin()) break;
    const Label& label = *std::prev(above);
    KeptChoice choice{.kept_bytes = label.bytes, .rerun_seconds = label.seconds};
    for (auto link = label.kept; link != nullptr; link = link->next) {
      choice.operators.insert(link->number);
    }
    if (choice.operators.empty()) break;
    if (!choices.empty() && choices.back().operators == choice.operators) continue;
    choice.name = NameOf(costs, choice.operators);
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace stowage
