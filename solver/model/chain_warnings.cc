#include "solver/model/chain_warnings.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "solver/base/units.h"

namespace stowage {
namespace {

constexpr double kMinBackward = 0.5;  // of the forward
constexpr double kMaxBackward = 6;
constexpr double kMaxTimesApart = 10;       // of one kind of stage
constexpr double kMeasurableShare = 0.001;  // of the step: shorter times are noise
constexpr double kLongestStep = 120;
constexpr double kShortestStep = 1e-4;
constexpr int64_t kSmallestTensor = 16;

using Time = double Stage::*;
constexpr std::pair<Time, const char*> kTimes[] = {{&Stage::forward_seconds, "forward_seconds"},
                                                   {&Stage::backward_seconds, "backward_seconds"}};

std::string StageField(int l, absl::string_view field) {
  return absl::StrCat("chain.stages[", l - 1, "].", field);
}

// What one pass over the stages counts. Stages are numbered from 1; 0: none.
struct Survey {
  double step_seconds = 0;
  int timed = 0;  // stages that take time at all
  int short_backwards = 0;
  int long_backwards = 0;
  int first_short = 0;
  int first_long = 0;
  int small = 0;
  int first_small = 0;
  int saved_is_output = 0;
};

void AddTimes(const Stage& stage, int l, Survey* survey) {
  const double forward = stage.forward_seconds;
  const double backward = stage.backward_seconds;
  survey->step_seconds += forward + backward;
  if (forward == 0 && backward == 0) return;
  ++survey->timed;
  if (backward < kMinBackward * forward) {
    if (survey->short_backwards++ == 0) survey->first_short = l;
  } else if (backward > kMaxBackward * forward) {
    if (survey->long_backwards++ == 0) survey->first_long = l;
  }
}

Survey SurveyOf(const Chain& chain) {
  Survey survey;
  survey.step_seconds = chain.loss.forward_seconds + chain.loss.backward_seconds;
  for (int l = 1; l <= chain.length(); ++l) {
    const Stage& stage = chain.stage(l);
    AddTimes(stage, l, &survey);
    if (stage.saved_bytes < kSmallestTensor && survey.small++ == 0) survey.first_small = l;
    if (stage.saved_bytes == stage.output_bytes) ++survey.saved_is_output;
  }
  return survey;
}

void WarnOfStep(const Survey& survey, std::vector<ChainWarning>* out) {
  const double step = survey.step_seconds;
  if (step == 0) {
    out->push_back({"chain.stages", kTimesZero,
                    "has no time other than 0, so that every schedule takes equally long; set "
                    "forward_seconds and backward_seconds to measured times"});
  } else if (step > kLongestStep) {
    out->push_back({"chain.stages", kStepLong,
                    absl::StrCat("takes ", FormatSeconds(step),
                                 " for one forward and backward of each stage; times are in "
                                 "seconds: if these are milliseconds, divide them by 1000")});
  } else if (step < kShortestStep) {
    out->push_back({"chain.stages", kStepShort,
                    absl::StrCat("takes ", FormatSeconds(step),
                                 " for one forward and backward of each stage; times are in "
                                 "seconds, and a timer has to wait for the device before each "
                                 "reading")});
  }
}

// One warning for both directions: a measurement may be wrong in either, stage by stage.
void WarnOfBackwards(const Chain& chain, const Survey& survey, std::vector<ChainWarning>* out) {
  const int shorter = survey.short_backwards;
  const int longer = survey.long_backwards;
  if (2 * (shorter + longer) <= survey.timed) return;
  const bool is_short = shorter > longer;
  const int l = is_short ? survey.first_short : survey.first_long;
  const bool is_free = is_short && chain.stage(l).backward_seconds == 0;
  const char* remedy =
      is_free ? "set backward_seconds to measured times, too"
      : is_short
          ? "run some steps before measuring, so that no forward's time holds the start of "
            "the device or a compilation, and take medians"
          : "let the timer wait for the device before each reading, as "
            "torch.cuda.synchronize() does, so that no forward's work counts as a backward's";
  out->push_back(
      {StageField(l, "backward_seconds"), is_short ? kBackwardShort : kBackwardLong,
       absl::StrCat("is ", FormatSeconds(chain.stage(l).backward_seconds), ", the forward ",
                    FormatSeconds(chain.stage(l).forward_seconds), "; of ", survey.timed,
                    " stages ", shorter, " take less than half as long backward as forward, and ",
                    longer, " more than six times as long: ", remedy)});
}

void WarnOfSizes(const Chain& chain, const Survey& survey, std::vector<ChainWarning>* out) {
  if (2 * survey.small > chain.length()) {
    out->push_back(
        {StageField(survey.first_small, "saved_bytes"), kSizesSmall,
         absl::StrCat("is ", chain.stage(survey.first_small).saved_bytes, "; ", survey.small,
                      " of ", chain.length(), " stages save less than ", kSmallestTensor,
                      " bytes, which no tensor of a network does: "
                      "sizes are in bytes, not in MiB or elements")});
  } else if (survey.saved_is_output == chain.length()) {
    out->push_back({StageField(1, "saved_bytes"), kSavedEqualsOutput,
                    absl::StrCat("is ", chain.stage(1).saved_bytes,
                                 ", as output_bytes, and so it is in every stage; it is all that "
                                 "the backward needs, output included: measure the memory that is "
                                 "allocated after the forward beyond what was before it")});
  }
}

// The digits of a name number the stages of a kind: "layer3.conv1" and "layer12.conv1" are of one.
bool IsLetterOfKind(char c) { return !absl::ascii_isdigit(static_cast<unsigned char>(c)); }

bool NamesAKind(absl::string_view name) {
  return std::any_of(name.begin(), name.end(), [](char c) {
    return IsLetterOfKind(c) && !absl::ascii_ispunct(static_cast<unsigned char>(c));
  });
}

bool SameUpToDigits(absl::string_view a, absl::string_view b) {
  const auto next = [](absl::string_view text, size_t i) {
    while (i < text.size() && !IsLetterOfKind(text[i])) ++i;
    return i;
  };
  size_t i = next(a, 0);
  size_t j = next(b, 0);
  while (i < a.size() && j < b.size() && a[i] == b[j]) {
    i = next(a, i + 1);
    j = next(b, j + 1);
  }
  return i >= a.size() && j >= b.size();
}

bool SameKind(const Stage& a, const Stage& b) {
  return a.output_bytes == b.output_bytes && a.saved_bytes == b.saved_bytes &&
         SameUpToDigits(a.name, b.name);
}

// FNV-1a. Of any two names it only decides whether they are compared.
uint64_t HashOfKind(const Stage& stage) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint64_t value) { hash = (hash ^ value) * kPrime; };
  for (const char c : stage.name) {
    if (IsLetterOfKind(c)) add(static_cast<unsigned char>(c));
  }
  add(static_cast<uint64_t>(stage.output_bytes));
  add(static_cast<uint64_t>(stage.saved_bytes));
  return hash ^ (hash >> 32);  // the low bits of the sizes are often zero
}

// Two stages of one kind, of which one takes many times as long as the other.
struct Apart {
  int slow = 0;
  int fast = 0;
  double ratio = 0;
};

// Finds the pair that is farthest apart in one of the times. The kinds are in a table of fixed size
// where a new kind replaces another one: of a chain with hundreds of kinds pairs may be missed.
class KindTable {
 public:
  // Times below `min_seconds` are noise.
  KindTable(const Chain& chain, Time time, double min_seconds)
      : chain_(chain), time_(time), min_seconds_(min_seconds) {}

  void Add(int l) {
    Kind& kind = kinds_[HashOfKind(chain_.stage(l)) % kinds_.size()];
    if (kind.slow == 0 || !SameKind(chain_.stage(kind.slow), chain_.stage(l))) kind = {l, l};
    if (Seconds(l) > Seconds(kind.slow)) kind.slow = l;
    if (Seconds(l) < Seconds(kind.fast)) kind.fast = l;
    const double slow = Seconds(kind.slow);
    const double fast = Seconds(kind.fast);
    if (slow < min_seconds_ || slow <= kMaxTimesApart * fast) return;
    const double ratio = fast > 0 ? slow / fast : std::numeric_limits<double>::infinity();
    if (ratio > farthest_.ratio) farthest_ = {kind.slow, kind.fast, ratio};
  }

  const Apart& farthest() const { return farthest_; }

 private:
  struct Kind {
    int slow = 0;  // 0: none
    int fast = 0;
  };

  double Seconds(int l) const { return chain_.stage(l).*time_; }

  const Chain& chain_;
  const Time time_;
  const double min_seconds_;
  std::array<Kind, 256> kinds_ = {};
  Apart farthest_;
};

void WarnOfKinds(const Chain& chain, const Survey& survey, std::vector<ChainWarning>* out) {
  for (const auto& [time, field] : kTimes) {
    KindTable kinds(chain, time, kMeasurableShare * survey.step_seconds);
    for (int l = 1; l <= chain.length(); ++l) {
      if (NamesAKind(chain.stage(l).name)) kinds.Add(l);
    }
    const auto [slow, fast, ratio] = kinds.farthest();
    if (slow == 0) continue;
    out->push_back(
        {StageField(slow, field), kTimesDiffer,
         absl::StrCat("is ", FormatSeconds(chain.stage(slow).*time), ", and ",
                      FormatSeconds(chain.stage(fast).*time), " in stages[", fast - 1,
                      "], which has the same sizes, and the same name up to digits; measure again, "
                      "after some steps that do not count, and take medians of several")});
    return;
  }
}

}  // namespace

std::vector<ChainWarning> ChainWarnings(const Chain& chain) {
  std::vector<ChainWarning> out;
  const Survey survey = SurveyOf(chain);
  WarnOfStep(survey, &out);
  WarnOfBackwards(chain, survey, &out);
  WarnOfKinds(chain, survey, &out);
  WarnOfSizes(chain, survey, &out);
  return out;
}

}  // namespace stowage
