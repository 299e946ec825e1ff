// The page of --html: one file that shows a chain's schedules and budgets in any browser, offline.
#ifndef STOWAGE_CLIENT_CLI_HTML_PAGE_H_
#define STOWAGE_CLIENT_CLI_HTML_PAGE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/service/results.h"
#include "solver/model/answer.h"
#include "solver/model/chain.h"
#include "solver/model/platform.h"
#include "solver/model/request.h"
#include "stowage/v1/view.pb.h"

namespace stowage {

// --html FILE.
void AddHtml(CLI::App& command, std::string* path);

// A view of the chain alone. `message` is `chain` as in its file, with what Chain lacks.
v1::View ViewOf(const v1::Chain& message, const Chain& chain);

// An answer, with its schedule's simulation in this process. Errors: those of Simulate().
absl::StatusOr<v1::ViewedSchedule> ViewedAnswer(const Chain& chain, const Platform& platform,
                                                const SolveResult& result);
// A schedule that no solver found just now. Errors: those of Simulate().
absl::StatusOr<v1::ViewedSchedule> ViewedSimulation(const SimulateRequest& request);

// Writes the page, or does nothing without a path. Errors name --html and the path.
absl::Status WriteHtml(const std::string& path, const v1::View& view);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_CLI_HTML_PAGE_H_
