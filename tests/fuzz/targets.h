// What is fuzzed: each target takes any bytes and ends the process where a promise is broken. The
// fuzzers (fuzzer.cc) and the tests that replay what they once found (replay_test.cc) call them.
#ifndef STOWAGE_TESTS_FUZZ_TARGETS_H_
#define STOWAGE_TESTS_FUZZ_TARGETS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "solver/algorithms/solver.h"
#include "solver/model/request.h"

namespace stowage {

// Texts of chains, platforms, schedules and requests, as the command line reads them; what is valid
// is solved and simulated.
void FuzzJson(absl::string_view bytes);
// Two requests: their cache keys are equal only where the requests are. See keys_target.cc.
void FuzzKeys(absl::string_view bytes);
// Replies of Redis. See replies_target.cc.
void FuzzReplies(absl::string_view bytes);
// Messages as the server reads them; the first byte says of which method.
void FuzzRequest(absl::string_view bytes);
// Operations on a chain of a few stages: see schedule_target.cc for what each byte means.
void FuzzSchedule(absl::string_view bytes);
// Answers of the store and files of plans. The first byte says which.
void FuzzStored(absl::string_view bytes);

struct FuzzTarget {
  const char* name;
  void (*run)(absl::string_view bytes);
  std::vector<std::string> (*seeds)();  // inputs that get far
};
// "json", "keys", "replies", "request", "schedule", "stored"
const std::vector<FuzzTarget>& FuzzTargets();

std::vector<std::string> JsonSeeds();
std::vector<std::string> KeysSeeds();
std::vector<std::string> RepliesSeeds();
std::vector<std::string> RequestSeeds();
std::vector<std::string> ScheduleSeeds();
std::vector<std::string> StoredSeeds();

// Three equal stages: each keeps 30 bytes, takes a second forward and two backward.
Chain SmallChain();

// In which a solve may take 32 MiB: what needs more has to say so before.
SolveContext SmallContext();

// Ends the process, and says why, unless `holds`.
void Require(bool holds, absl::string_view what);

// Solves what is small enough for thousands of inputs a second, in little memory, and holds the
// answer to what it says of itself. Requires: RequestViolations(request) is empty.
void SolveAndCheck(const SolveRequest& request);

}  // namespace stowage

#endif  // STOWAGE_TESTS_FUZZ_TARGETS_H_
