// The real chains of tests/data, read without protobuf: for tests that are built without gRPC, too.
#ifndef STOWAGE_TESTS_SUPPORT_PROFILES_H_
#define STOWAGE_TESTS_SUPPORT_PROFILES_H_

#include <string>
#include <vector>

#include "solver/model/chain.h"

namespace stowage {

// Their names, sorted: "torchvision-resnet101-32-224" is
// tests/data/torchvision-resnet101-32-224.json.
std::vector<std::string> AllProfiles();
// Those of tests/data/cases, as "cases/harmony-vgg416".
std::vector<std::string> CaseProfiles();
// For matrices that take minutes: of the network with 339 stages, which comes with two batch sizes,
// only the larger one.
std::vector<std::string> SampledProfiles();

// Ends the program, with a word, when there is no such file or it is not a chain.
Chain LoadProfile(const std::string& name);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_PROFILES_H_
