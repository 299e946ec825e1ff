// Requests of the C interface, as client/c/stowage.h describes them: the API's, with what limits a
// call. Pure, thread-safe.
#ifndef STOWAGE_CLIENT_C_QUESTIONS_H_
#define STOWAGE_CLIENT_C_QUESTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/saved_plan/plan_reuse.h"
#include "nlohmann/json.hpp"
#include "solver/algorithms/kept_operators.h"
#include "solver/model/answer.h"
#include "solver/model/request.h"
#include "solver/model/validate.h"

namespace stowage {

struct Limits {
  int64_t working_bytes = int64_t{4} << 30;
  std::optional<double> timeout_seconds = {};
};

struct SolveQuestion {
  SolveRequest request = {};
  Limits limits = {};
  bool stream = false;
};
struct FrontierQuestion {
  FrontierRequest request = {};
  Limits limits = {};
};
struct SimulateQuestion {
  SimulateRequest request = {};
  Limits limits = {};
};
struct ExportQuestion {
  SolveRequest request = {};
  std::string target = {};
  std::string layers = {};
  Limits limits = {};
};
struct ReuseQuestion {
  SolveRequest request = {};
  EarlierPlan plan = {};
};
struct WaysQuestion {
  std::vector<OperatorCost> operators = {};
  int64_t most_bytes = 0;
  int count = 0;
};
struct MemoryQuestion {
  Chain chain = {};
  std::optional<std::string> budget = {};
};
struct UnitsQuestion {
  std::optional<std::string> size = {};
  std::optional<int64_t> bytes = {};
  std::optional<double> seconds = {};
};
struct NoQuestion {};

// Reads one of these, and returns all that is wrong with it: fields of another type, or values that
// no request may have. Then `asked` means nothing.
template <typename Question>
std::vector<FieldViolation> ReadQuestion(const nlohmann::json& json, Question* asked);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_C_QUESTIONS_H_
