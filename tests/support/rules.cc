#include "tests/support/rules.h"

#include <fstream>
#include <stdexcept>

namespace stowage {

std::vector<nlohmann::json> RuleCases(const std::string& name) {
  std::ifstream file(std::string(STOWAGE_TEST_DATA "/rules/") + name + ".json");
  auto cases = nlohmann::json::parse(file).at("cases").get<std::vector<nlohmann::json>>();
  if (cases.empty()) throw std::runtime_error(name + ": no cases");
  return cases;
}

}  // namespace stowage
