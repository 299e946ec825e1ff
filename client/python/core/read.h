// Requests from Python dicts whose keys are the API's field names (proto/stowage/v1). Runs no
// Python code: reads exact and derived dict, list, tuple, str, int, float and bool only. Holds the
// GIL.
#ifndef STOWAGE_CLIENT_PYTHON_CORE_READ_H_
#define STOWAGE_CLIENT_PYTHON_CORE_READ_H_

#include <pybind11/pybind11.h>

#include <vector>

#include "solver/model/answer.h"
#include "solver/model/request.h"
#include "solver/model/validate.h"

namespace stowage {

// Each reads one object and appends what is wrong with it: unknown fields, values of another type,
// numbers out of range, as in
//   chain.stages[3].forward_secnds: "unknown field"
//   chain.stages[3].saved_bytes: "1.5 is not a whole number from -2^63 to below 2^63"
// The values themselves are checked by RequestViolations().
Chain ReadChain(pybind11::handle object, std::vector<FieldViolation>* violations);
SolveRequest ReadSolveRequest(pybind11::handle object, std::vector<FieldViolation>* violations);
FrontierRequest ReadFrontierRequest(pybind11::handle object,
                                    std::vector<FieldViolation>* violations);
SimulateRequest ReadSimulateRequest(pybind11::handle object,
                                    std::vector<FieldViolation>* violations);
// What ReuseAnswer() reads of an answer.
Answer ReadAnswer(pybind11::handle object, std::vector<FieldViolation>* violations);

}  // namespace stowage

#endif  // STOWAGE_CLIENT_PYTHON_CORE_READ_H_
