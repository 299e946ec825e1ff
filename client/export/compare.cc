#include "client/export/compare.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/export/local_export.h"
#include "solver/base/status_macros.h"
#include "solver/export/named_setting.h"
#include "solver/export/settings.h"
#include "solver/simulator/simulator.h"

namespace stowage {
namespace {

// Of targets whose users choose layers one by one, which are as many as there are sets: all or none
// of them, and where they have such a setting one of every N.
std::vector<Setting> NamedSettings(const ExportRequest& request) {
  const Layers layers = LayersOf(*request.target, request.chain, request.stages);
  const int count = layers.count();
  std::vector<Setting> settings = AllSettings(count);
  switch (request.target->plans) {
    case PlanClass::kUniformOrBlock:
      break;
    case PlanClass::kUniform:
      std::erase_if(settings, [](const Setting& s) { return s.method == Method::kBlock; });
      break;
    case PlanClass::kFlat:
    case PlanClass::kPerLayer:
      std::erase_if(settings, [](const Setting& setting) {
        return setting.method != Method::kNone && setting != Setting{Method::kUniform, 1};
      });
      if (request.target->plans == PlanClass::kFlat) break;
      const Method every =
          request.target->every_is_first ? Method::kFirstOfEvery : Method::kLastOfEvery;
      for (int n = 2; n <= count; ++n) settings.push_back({every, n});
  }
  for (std::string& way : layers.CommonWays()) {
    settings.push_back({.method = Method::kWay, .way = std::move(way)});
  }
  return settings;
}

bool HasNames(PlanClass plans) {
  return plans == PlanClass::kUniform || plans == PlanClass::kUniformOrBlock;
}

auto Rank(const ComparedSchedule& compared) {
  const Prediction& prediction = compared.prediction;
  return std::tuple(!compared.fits, compared.fits ? prediction.makespan_seconds : 0,
                    prediction.peak_memory_bytes, compared.name);
}

}  // namespace

absl::StatusOr<std::vector<ComparedSchedule>> CompareSettings(const ExportRequest& request,
                                                              const LocalOptions& options) {
  std::vector<ComparedSchedule> compared;
  for (const Setting& setting : NamedSettings(request)) {
    const NamedSetting named{request.target, setting};
    if (ForbiddenStage(named, request.chain, request.stages).has_value()) continue;
    ASSIGN_OR_RETURN(
        const Simulation simulation,
        Simulate(request.chain, request.platform, ScheduleOf(named, request.chain, request.stages),
                 nullptr, options.stop));
    compared.push_back({NameOf(named), {}, simulation.prediction, simulation.feasible()});
  }
  if (!HasNames(request.target->plans)) {
    ASSIGN_OR_RETURN(Export best, MakeExport(request, options));
    if (best.exported.has_value()) {
      best.exported->name = absl::StrCat(request.target->name, ": best");
      best.exported->schedule = {};
      compared.push_back(*std::move(best.exported));
    }
  }
  std::ranges::sort(compared, {}, Rank);
  return compared;
}

}  // namespace stowage
