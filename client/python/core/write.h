// Answers as Python dicts whose keys are the API's field names (proto/stowage/v1): enumerators by
// name, unset fields left out. Each holds the GIL.
#ifndef STOWAGE_CLIENT_PYTHON_CORE_WRITE_H_
#define STOWAGE_CLIENT_PYTHON_CORE_WRITE_H_

#include <pybind11/pybind11.h>

#include "proto/service/results.h"
#include "solver/export/export.h"
#include "solver/export/targets.h"
#include "solver/model/answer.h"
#include "solver/model/explanation.h"
#include "solver/model/platform.h"
#include "solver/model/solver_description.h"

namespace stowage {

const char* GuaranteeName(Guarantee guarantee);  // "HEURISTIC", as in JSON; static

pybind11::dict ToDict(const SolveResult& result, const Platform& platform);
pybind11::dict ToDict(const FrontierResult& result);
pybind11::dict ToDict(const ExplainedSimulation& simulation);
pybind11::dict ToDict(const SolverDescription& description);
// Has fields of Python's own: the API has no such messages.
pybind11::dict ToDict(const Export& exported);
pybind11::dict ToDict(const Target& target);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_PYTHON_CORE_WRITE_H_
