// What Mixed Mode costs, gains and takes for granted.
//   growth       the time of each program for N operators and M slots, the same chain and budget:
//                  tables   rotor's, of both modes
//                  exact    the recurrence in full (mixed_splits.h)
//                  convex   the convex program (convex_splits.h)
//                  proof    its certificate (split_certificate.h)
//                and the exponents of N and M that fit best
//   assumptions  how often what the convex program takes for granted is so on real chains: the
//                quadrangle inequality of F, convexity in memory of E, G, F and Opt; and how much
//                slower than the best its answer is, before the certificate and after
//   gain         all stages in eager mode, all that can in graph mode, and mixed, at shares of the
//                range from the memory floor to storing all
// Chains: tests/data/modes, of which longer ones are made by repeating.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "solver/algorithms/modes/convex_splits.h"
#include "solver/algorithms/modes/mixed_splits.h"
#include "solver/algorithms/modes/mode_tables.h"
#include "solver/algorithms/modes/split_certificate.h"
#include "solver/bounds/lower_bound.h"
#include "solver/bounds/memory_range.h"
#include "solver/model/modes.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/benchmark/benchmark_flags.h"
#include "tests/support/graph_mode_rule.h"
#include "tests/support/profiles.h"

namespace stowage {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

class Watch {
 public:
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> passed = now - last_;
    last_ = now;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

int64_t Budget(const Chain& chain, double share) {
  const int64_t low = FloorOfMemory(chain).bytes;
  return low + static_cast<int64_t>(share * static_cast<double>(StoreAllPeakBytes(chain) - low));
}

ModeTables TablesFor(const Chain& chain, int64_t memory_bytes, int64_t slots) {
  const SlotGrid grid{memory_bytes, slots, SlotGrid::Rounding::kNearest};
  return *ModeTables::Build(chain, {grid, slots}, {});
}

// `operators` - 1 stages of the chain, over and over, and its loss.
Chain Repeated(const Chain& chain, int operators) {
  Chain out = chain;
  out.stages.clear();
  for (int i = 0; i + 1 < operators; ++i) {
    Stage stage = chain.stages[static_cast<size_t>(i % chain.length())];
    stage.name.clear();
    if (!stage.fusion_group.empty()) {
      stage.fusion_group += "." + std::to_string(i / chain.length());
    }
    out.stages.push_back(stage);
  }
  // A group that the end cuts is none.
  const std::string cut = out.stages.back().fusion_group;
  for (Stage& stage : out.stages) {
    if (!cut.empty() && stage.fusion_group == cut) stage.graph.reset();
  }
  return out;
}

struct Row {
  double operators = 0;
  double slots = 0;
  std::vector<double> seconds;
};

// The exponents a, b of seconds = c N^a M^b that fit best, by least squares of the logarithms.
std::pair<double, double> Exponents(const std::vector<Row>& rows, size_t column) {
  double n = 0, x = 0, y = 0, z = 0, xx = 0, yy = 0, xy = 0, xz = 0, yz = 0;
  for (const Row& row : rows) {
    const double a = std::log(row.operators);
    const double b = std::log(row.slots);
    const double c = std::log(row.seconds[column]);
    n += 1, x += a, y += b, z += c, xx += a * a, yy += b * b, xy += a * b, xz += a * c, yz += b * c;
  }
  xx -= x * x / n, yy -= y * y / n, xy -= x * y / n, xz -= x * z / n, yz -= y * z / n;
  const double determinant = xx * yy - xy * xy;
  return {(xz * yy - yz * xy) / determinant, (yz * xx - xz * xy) / determinant};
}

void PrintGrowth(int max_operators) {
  const Chain base = LoadProfile("modes/preact-resnet1001-8-224");
  constexpr double kShare = 0.2;
  std::printf("growth: seconds, preact-resnet1001 repeated, memory at %.0f %% of the range\n",
              100 * kShare);
  std::printf("  %5s %5s %9s %9s %9s %9s %9s  %8s %s\n", "N", "M", "tables", "exact", "convex",
              "proof", "searches", "convex/", "certified");
  std::vector<Row> rows;
  for (const int operators : {50, 100, 200, 400, 700, 1000}) {
    if (operators > max_operators) break;
    const Chain chain = Repeated(base, operators);
    for (const int slots : {100, 200, 300, 500}) {
      Progress(absl::StrFormat("growth: %d operators, %d slots", operators, slots));
      Watch watch;
      const ModeTables tables = TablesFor(chain, Budget(chain, kShare), slots);
      const double table_seconds = watch.Lap();
      const auto exact = ExactSplits::Find(tables, {});
      const double exact_seconds = watch.Lap();
      const auto share = static_cast<int64_t>(tables.shares()) - 1;
      const auto convex = FindConvexSplits(tables, share, {});
      const double convex_seconds = watch.Lap();
      const auto proved = CertifySplits(tables, share, *convex, {});
      const double proof_seconds = watch.Lap();
      const double least = exact->SecondsWithin(share);
      const double alone = convex->splits.seconds / least - 1;
      const double with = proved->splits.seconds / least - 1;
      std::printf("  %5d %5d %9.4f %9.4f %9.4f %9.4f %9lld  %7.4f%% %s %.1e\n", operators, slots,
                  table_seconds, exact_seconds, convex_seconds, proof_seconds,
                  static_cast<long long>(convex->searches), 100 * alone,
                  proved->certified ? "yes" : "no", with);
      std::fflush(stdout);
      rows.push_back(
          {static_cast<double>(operators),
           static_cast<double>(slots),
           {table_seconds, exact_seconds, convex_seconds, proof_seconds,
            table_seconds + exact_seconds, table_seconds + convex_seconds + proof_seconds}});
    }
  }
  const char* names[] = {"tables", "exact",          "convex",
                         "proof",  "tables + exact", "tables + convex + proof"};
  for (size_t column = 0; column < std::size(names); ++column) {
    const auto [n, m] = Exponents(rows, column);
    std::printf("  %-24s ~ N^%.2f M^%.2f\n", names[column], n, m);
  }
}

// Of the cases that were looked at those in which it held.
struct Share {
  int64_t held = 0;
  int64_t all = 0;

  void Add(bool holds) {
    ++all;
    held += holds ? 1 : 0;
  }
  double percent() const {
    return all > 0 ? 100.0 * static_cast<double>(held) / static_cast<double>(all) : 100;
  }
};

// A table's single precision, and what it charges for ties.
bool AtMost(double a, double b) { return a <= b + 1e-5 * std::abs(b); }

void AddConvexity(const std::vector<double>& values, Share* share) {
  for (size_t k = 1; k + 1 < values.size(); ++k) {
    if (values[k - 1] == kNone) continue;
    if (values[k - 1] == values[k + 1]) continue;  // flat, where memory no longer matters
    share->Add(AtMost(2 * values[k], values[k - 1] + values[k + 1]));
  }
}

struct Assumptions {
  Share quadrangle;
  Share eager;
  Share graph;
  Share both;
  Share optimum;
};

Assumptions Check(const ModeTables& tables, const ExactSplits& exact) {
  Assumptions found;
  const int count = tables.operators();
  const auto shares = static_cast<int64_t>(tables.shares());
  std::vector<double> eager(tables.shares());
  std::vector<double> graph(tables.shares());
  std::vector<double> both(tables.shares());
  const int step = std::max(1, count / 40);  // a sample of long chains
  for (int i = 0; i < count; i += step) {
    for (int j = i + 1; j <= count; j += step) {
      for (int64_t share = 0; share < shares; ++share) {
        const auto at = static_cast<size_t>(share);
        eager[at] = tables.Eager(i, j, share);
        graph[at] = tables.Graph(i, j, share);
        both[at] = std::min(eager[at], graph[at]);
        if (i == 0 || j >= count || i + 1 >= j || share == 0 || share % 8 != 0) continue;
        const double wider = tables.Fastest(i, j + 1, share);
        const double inner = tables.Fastest(i + 1, j, share);
        if (wider == kNone || inner == kNone) continue;
        found.quadrangle.Add(AtMost(both[at] + tables.Fastest(i + 1, j + 1, share), inner + wider));
      }
      AddConvexity(eager, &found.eager);
      if (graph.back() < kNone) AddConvexity(graph, &found.graph);
      AddConvexity(both, &found.both);
    }
  }
  std::vector<double> optimum;
  for (int64_t share = 0; share < shares; ++share) optimum.push_back(exact.SecondsWithin(share));
  AddConvexity(optimum, &found.optimum);
  return found;
}

// How much slower than the best a program's answers are.
struct Excess {
  double sum = 0;
  double worst = 0;
  int count = 0;
  int failed = 0;

  void Add(double seconds, double least) {
    if (seconds == kNone) {
      ++failed;
      return;
    }
    const double excess = seconds / least - 1;
    sum += excess;
    worst = std::max(worst, excess);
    ++count;
  }
  double mean() const { return count > 0 ? sum / count : 0; }
};

struct Programs {
  Excess convex;
  Excess proved;
  int certified = 0;
  int wrong = 0;
  int cases = 0;

  void Add(const ModeTables& tables, const ExactSplits& exact) {
    const auto most = static_cast<int64_t>(tables.shares()) - 1;
    for (int tenth = 2; tenth <= 10; ++tenth) {
      const int64_t share = most * tenth / 10;
      const double least = exact.SecondsWithin(share);
      if (least == kNone) continue;
      const auto found = FindConvexSplits(tables, share, {});
      const auto result = CertifySplits(tables, share, *found, {});
      if (!result.ok()) std::abort();
      ++cases;
      convex.Add(found->splits.seconds, least);
      proved.Add(result->splits.seconds, least);
      certified += result->certified ? 1 : 0;
      wrong += found->wrong_splits > 0 ? 1 : 0;
    }
  }
  void Print() const {
    std::printf("  %4d  %7.4f%% %7.3f%% %4d  %9.2e  %3d/%d\n", cases, 100 * convex.mean(),
                100 * convex.worst, convex.failed, proved.worst, certified, cases);
  }
};

// Chains of random sizes and times, in both modes.
Chain RandomChain(std::mt19937_64& random) {
  const auto below = [&random](int64_t end) {
    return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
  };
  Chain chain;
  chain.input_bytes = below(10);
  chain.graph_entry_seconds = static_cast<double>(below(3));
  for (int64_t left = 4 + below(17); left > 0; --left) {
    Stage stage;
    stage.forward_seconds = static_cast<double>(1 + below(9));
    stage.backward_seconds = static_cast<double>(1 + below(9));
    stage.output_bytes = 1 + below(10);
    stage.saved_bytes = stage.output_bytes + below(20);
    stage.control_flow = below(10) == 0;
    stage.graph = GraphCosts{static_cast<double>(1 + below(7)), static_cast<double>(1 + below(7)),
                             stage.output_bytes + below(20), below(10), below(10)};
    if (!chain.stages.empty() && below(3) == 0) {
      std::string& group = chain.stages.back().fusion_group;
      if (group.empty()) group = "unit" + std::to_string(left);
      stage.fusion_group = group;
    }
    chain.stages.push_back(stage);
  }
  return chain;
}

void PrintAssumptions() {
  constexpr int kSlots = 200;
  std::printf(
      "\nassumptions, %d slots: %% of cases in which they hold; what the convex program "
      "loses without them\n",
      kSlots);
  std::printf("  %-32s %6s %6s %6s %6s %6s  %4s  %8s %8s %4s  %9s  %s\n", "", "QI", "E", "G", "F",
              "Opt", "", "average", "worst", "none", "proved", "certified");
  const auto print = [](const std::string& name, const Assumptions& found) {
    std::printf("  %-32s %6.2f %6.2f %6.2f %6.2f %6.2f", name.c_str(), found.quadrangle.percent(),
                found.eager.percent(), found.graph.percent(), found.both.percent(),
                found.optimum.percent());
  };
  for (const std::string& name : ModeProfiles()) {
    const Chain chain = LoadProfile("modes/" + name);
    const ModeTables tables = TablesFor(chain, Budget(chain, 0.9), kSlots);
    const auto exact = ExactSplits::Find(tables, {});
    print(name, Check(tables, *exact));
    Programs programs;
    programs.Add(tables, *exact);
    programs.Print();
    std::fflush(stdout);
  }
  std::mt19937_64 random(7);
  Programs programs;
  Assumptions all;
  constexpr int kChains = 300;
  for (int i = 0; i < kChains; ++i) {
    const Chain chain = RandomChain(random);
    const int64_t budget = StoreAllPeakBytes(chain);
    const SlotGrid grid{budget, budget, SlotGrid::Rounding::kUp};
    const ModeTables tables = *ModeTables::Build(chain, {grid, budget}, {});
    const auto exact = ExactSplits::Find(tables, {});
    const Assumptions one = Check(tables, *exact);
    for (Share Assumptions::*share :
         {&Assumptions::quadrangle, &Assumptions::eager, &Assumptions::graph, &Assumptions::both,
          &Assumptions::optimum}) {
      (all.*share).held += (one.*share).held;
      (all.*share).all += (one.*share).all;
    }
    programs.Add(tables, *exact);
  }
  print(std::to_string(kChains) + " random chains", all);
  programs.Print();
}

// The makespan of `solver` on the chain with its modes given; infinite where nothing fits.
double MakespanOf(const Chain& chain, int64_t memory_bytes, const char* solver) {
  Platform platform;
  platform.memory_bytes = memory_bytes;
  const auto answer = AnswerRequest({chain, platform, solver, {}}, {});
  if (!answer.ok()) std::abort();
  if (answer->outcome == Outcome::kInfeasible) return kNone;
  return answer->prediction.makespan_seconds;
}

std::string Milliseconds(double seconds) {
  return seconds == kNone ? "-" : absl::StrFormat("%.1f", 1000 * seconds);
}

void PrintGain() {
  std::printf("\ngain: a step in ms; by how much mixing is faster than the better of the two\n");
  std::printf("  %-32s %4s %9s %9s %9s %9s  %7s %7s %7s\n", "", "mem", "eager", "graph", "mixed",
              "auto", "mixed", "auto", "gap");
  for (const std::string& name : ModeProfiles()) {
    Progress("gain: " + name);
    const Chain chain = LoadProfile("modes/" + name);
    std::vector<bool> modes;
    const ChainUnits units(chain);
    for (const Unit& unit : units) modes.push_back(unit.has_graph);
    const Execution graph = Execution::Of(chain, units, modes);
    for (const int percent : {5, 10, 20, 40, 60, 80}) {
      const int64_t memory = Budget(chain, percent / 100.0);
      const double eager = MakespanOf(chain, memory, "rotor");
      const double all_graph =
          MakespanOf(graph.chain(), memory, "rotor") + graph.Entries() * chain.graph_entry_seconds;
      const double mixed = MakespanOf(chain, memory, "mixed_mode");
      const double best = MakespanOf(chain, memory, "auto");
      const double better = std::min(eager, all_graph);
      const auto gain = [better](double seconds) -> std::string {
        if (seconds == kNone) return "-";
        if (better == kNone) return "only";
        return absl::StrFormat("%.2f%%", 100 * (better / seconds - 1));
      };
      Platform platform;
      platform.memory_bytes = memory;
      const double bound = LowerBoundSeconds(chain, platform);
      std::printf("  %-32s %3d%% %9s %9s %9s %9s  %7s %7s %6.2f%%\n",
                  percent == 5 ? name.c_str() : "", percent, Milliseconds(eager).c_str(),
                  Milliseconds(all_graph).c_str(), Milliseconds(mixed).c_str(),
                  Milliseconds(best).c_str(), gain(mixed).c_str(), gain(best).c_str(),
                  100 * (best / bound - 1));
      std::fflush(stdout);
    }
  }
}

int Main(int argc, char** argv) {
  BenchmarkFlags flags("stowage_mixed_mode_benchmark",
                       "Prints what Mixed Mode costs, gains and takes for granted.");
  int max_operators = 1000;
  flags.AddNumber("--max-operators", {1, kMaxStages}, &max_operators,
                  "of the chains whose growth is measured");
  if (const std::optional<int> code = flags.Parse(argc, argv)) return *code;
  PrintGrowth(max_operators);
  PrintAssumptions();
  PrintGain();
  return 0;
}

}  // namespace
}  // namespace stowage

int main(int argc, char** argv) { return stowage::Main(argc, argv); }
