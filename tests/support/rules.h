// The rules that several languages follow, as cases in tests/data/rules: the tests of each read the
// same file.
#ifndef STOWAGE_TESTS_SUPPORT_RULES_H_
#define STOWAGE_TESTS_SUPPORT_RULES_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace stowage {

// The cases of tests/data/rules/NAME.json, at least one. Throws where they cannot be read.
std::vector<nlohmann::json> RuleCases(const std::string& name);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_RULES_H_
