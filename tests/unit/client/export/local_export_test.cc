#include "client/export/local_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>

#include "absl/strings/str_cat.h"
#include "solver/export/settings.h"
#include "solver/simulator/simulator.h"
#include "solver/solve/answer_request.h"
#include "tests/support/chains.h"
#include "tests/support/status_matchers.h"

namespace stowage::local_export_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Eight stages that differ.
Chain Uneven() {
  Chain chain = EqualChain(8);
  chain.name = "uneven";
  for (size_t i = 0; i < chain.stages.size(); ++i) {
    chain.stages[i].forward_seconds = 1 + 0.3 * static_cast<double>(i * 5 % 7);
    chain.stages[i].saved_bytes += static_cast<int64_t>(i * 3 % 5) * 7;
  }
  return chain;
}

Export Exported(absl::string_view target, const Chain& chain, int64_t bytes, LayerStages stages) {
  const auto result = MakeExport({FindTarget(target), chain, Memory(bytes), stages}, {});
  EXPECT_THAT(result, IsOk());
  return result.value_or(Export());
}

double Seconds(const std::optional<ComparedSchedule>& compared) {
  return compared.has_value() ? compared->prediction.makespan_seconds : 1e9;
}

TEST(MakeExport, KeepsTheBudgetAndIsNotFasterThanTheFullSchedule) {
  for (const Target& target : AllTargets()) {
    for (int64_t bytes = 120; bytes <= 400; bytes += 20) {
      const Export result = Exported(target.name, Uneven(), bytes, {1, 8});
      EXPECT_EQ(result.text.empty(), !result.exported.has_value());
      if (!result.exported.has_value()) {
        EXPECT_GT(*result.minimum_memory_bytes, bytes);
        continue;
      }
      EXPECT_LE(result.exported->prediction.peak_memory_bytes, bytes);
      EXPECT_TRUE(result.exported->fits);
      ASSERT_TRUE(result.usual.has_value());
      EXPECT_EQ(result.usual->fits, result.usual->prediction.peak_memory_bytes <= bytes);
      EXPECT_GE(Seconds(result.exported), Seconds(result.full) - 1e-9);
      if (!result.usual->fits) continue;
      EXPECT_LE(Seconds(result.exported), Seconds(result.usual) + 1e-9);
    }
  }
}

// As a solve whose time ran out has: its first schedule, which may be of another class.
TEST(PlanFrom, TakesNoScheduleOfAnotherSolver) {
  for (const char* target : {"pytorch", "torchtitan"}) {
    const ExportRequest request{FindTarget(target), Uneven(), Memory(300), {1, 8}};
    SolveRequest solve = *PlanSolve(request, {});
    Answer answer = *AnswerRequest(solve, {});
    EXPECT_TRUE(PlanFrom(request, answer)->pieces.has_value());
    solve.solver = "rotor";
    answer = *AnswerRequest(solve, {});
    const TargetPlan plan = *PlanFrom(request, answer);
    EXPECT_FALSE(plan.pieces.has_value());
    EXPECT_TRUE(plan.time_ran_out);
  }
}

TEST(KnownInTime, IsNeitherAPlanNorInfeasible) {
  const ExportRequest request{FindTarget("megatron"), Uneven(), Memory(1024), {1, 8}};
  Export result;
  EXPECT_THAT(KnownInTime(request, result), IsOk());
  result.time_ran_out = true;
  EXPECT_THAT(
      KnownInTime(request, result),
      Fails(absl::StatusCode::kDeadlineExceeded,
            HasSubstr("time ran out before a plan of Megatron-core 0.19 within 1.00 KiB was "
                      "found; allow more")));
  result.exported.emplace();
  EXPECT_THAT(KnownInTime(request, result), IsOk());
}

TEST(FindSetting, SaysThatItWasStopped) {
  std::stop_source stop;
  stop.request_stop();
  const ExportRequest request{FindTarget("megatron"), Uneven(), Memory(300), {1, 8}};
  EXPECT_FALSE(FindSetting(request)->time_ran_out);
  EXPECT_TRUE(FindSetting(request, stop.get_token())->time_ran_out);
}

TEST(MakeExport, FindsNothingBelowTheLeastMemory) {
  for (const Target& target : AllTargets()) {
    const Export nothing = Exported(target.name, Uneven(), 50, {1, 8});
    ASSERT_TRUE(nothing.minimum_memory_bytes.has_value()) << target.name;
    const int64_t least = *nothing.minimum_memory_bytes;
    EXPECT_TRUE(Exported(target.name, Uneven(), least, {1, 8}).exported.has_value());
    EXPECT_FALSE(Exported(target.name, Uneven(), least - 1, {1, 8}).exported.has_value());
  }
}

TEST(MakeExport, FindsTheSettingsThatTheSolversFind) {
  for (int64_t bytes = 120; bytes <= 400; bytes += 10) {
    double fastest = 1e9;
    for (const char* solver : {"uniform", "block"}) {
      const auto answer = AnswerRequest({Uneven(), Memory(bytes), solver, {}}, {});
      ASSERT_THAT(answer, IsOk());
      if (answer->outcome == Outcome::kInfeasible) continue;
      fastest = std::min(fastest, answer->prediction.makespan_seconds);
    }
    EXPECT_NEAR(Seconds(Exported("megatron", Uneven(), bytes, {1, 8}).exported), fastest, 1e-9);
  }
}

// A framework recomputes its own layers, which begin after the embedding.
TEST(MakeExport, CountsFromTheFirstLayer) {
  const Export result = Exported("megatron", EqualChain(8), 150, {2, 7});
  ASSERT_TRUE(result.exported.has_value());
  const auto pieces = PiecesOf(EqualChain(8), result.exported->schedule);
  ASSERT_THAT(pieces, IsOk());
  EXPECT_EQ(pieces->front(), (Piece{1, 1, false}));
  EXPECT_EQ(pieces->back(), (Piece{8, 8, false}));
  EXPECT_THAT(result.text,
              HasSubstr("6 layers, of the chain's stages 2 to 7; the others are saved"));
}

// Megatron would run it twice.
TEST(MakeExport, RecomputesNoLayerThatMayRunOnlyOnce) {
  Chain chain = Uneven();
  chain.stages[3].no_recompute = true;
  const Export nothing = Exported("megatron", chain, 150, {1, 8});
  EXPECT_FALSE(nothing.exported.has_value());
  const Export some = Exported("megatron", chain, *nothing.minimum_memory_bytes, {1, 8});
  ASSERT_TRUE(some.exported.has_value());
  const auto pieces = PiecesOf(chain, some.exported->schedule);
  ASSERT_THAT(pieces, IsOk());
  for (const Piece& piece : *pieces) {
    EXPECT_TRUE(!piece.recomputed || piece.last < 4);
  }
}

// Frameworks with layers of their own recompute them all; PyTorch and JAX those that they are
// given.
TEST(MakeExport, ComparesWithNoDefaultThatIsNotPossible) {
  Chain chain = Uneven();
  chain.stages[3].no_recompute = true;
  for (const Target& target : AllTargets()) {
    const Export result = Exported(target.name, chain, 1000, {1, 8});
    const bool possible = target.unit == LayerUnit::kStage;
    EXPECT_EQ(result.usual.has_value(), possible) << target.name;
    EXPECT_EQ(result.forbidden_stage, possible ? std::nullopt : std::optional<int>(4));
    const std::vector<std::string>& lines = result.comparison;
    ASSERT_EQ(lines.size(), 3);
    EXPECT_THAT(result.text, HasSubstr(lines[2]));
    EXPECT_THAT(lines[2], HasSubstr(absl::StrCat("usual: ", target.usual)));
    const auto refusal = HasSubstr("not possible: stage 4 may run once");
    EXPECT_EQ(::testing::Matches(refusal)(lines[2]), !possible) << lines[2];
  }
}

TEST(MakeExport, ComparesInThreeLines) {
  const Export result = Exported("huggingface", EqualChain(8), 200, {1, 8});
  const std::vector<std::string>& lines = result.comparison;
  ASSERT_EQ(lines.size(), 3);
  EXPECT_THAT(lines[0], HasSubstr("full schedule ("));
  EXPECT_THAT(lines[1], HasSubstr("this export (per_layer)"));
  EXPECT_THAT(lines[2], HasSubstr("usual: every layer recomputed"));
  for (const std::string& line : lines) EXPECT_THAT(result.text, HasSubstr("#   " + line + "\n"));
}

TEST(MakeExport, WritesNamesOnOneLine) {
  Chain chain = EqualChain(3);
  chain.name = "a\nb = 1";
  chain.stages[0].name = "x\rimport os";
  for (const Target& target : AllTargets()) {
    const std::string text = Exported(target.name, chain, 100, {1, 3}).text;
    EXPECT_THAT(text, HasSubstr("a b = 1"));
    EXPECT_THAT(text, Not(HasSubstr("\nb = 1")));
    EXPECT_THAT(text, Not(HasSubstr("\r")));
  }
}

}  // namespace
}  // namespace stowage::local_export_test
