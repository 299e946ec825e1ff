/* The C interface of Stowage: solvers, simulator and exports in the calling process, for every
 * language that can call C. Requests and results are JSON in UTF-8 with the API's fields
 * (proto/stowage/v1, in snake_case or lowerCamelCase, enumerators by name); no protobuf, no gRPC.
 *
 * A function that takes a request makes a call. stowage_next() returns what happens, as JSON
 * objects with one member each:
 *
 *   {"progress":{"solver":"rotor","fraction":0.25}}   solve alone; at most one in 20 ms
 *   {"improved":{…}}                                  solve with "stream": a better answer; of
 * those that nobody fetches the 64 newest are kept
 *   {"result":{…}}                                    last: what the function returns
 *   {"error":{"code":3,"message":"…","violations":[{"field":"…","problem":"…"}]}}
 *                                                     or last: a code of gRPC and, if that is why,
 *                                                     the fields of the request that are wrong, the
 *                                                     first 100 of them
 *
 *   const char* request = "{\"chain\":{\"input_bytes\":8,\"stages\":[…]},"
 *                         " \"platform\":{\"memory_bytes\":\"4294967296\"}}";
 *   stowage_call* call = stowage_solve(request, strlen(request));
 *   while (!stowage_has_ended(call)) {
 *     const char* event = stowage_next(call, 1000);
 *     if (event != NULL) puts(event);
 *   }
 *   stowage_free(call);
 *
 * stowage_solve(), stowage_frontier(), stowage_simulate() and stowage_export() return at once, and
 * threads of the library work. The others have ended when they return: they take milliseconds, and
 * up to half a second with 10,000 stages.
 *
 * 64-bit integers are strings in results and may be numbers in requests. A null member is unset.
 * Functions are thread-safe; those of one call are for one thread at a time, but for
 * stowage_cancel(). No function throws or ends the process. After fork() a child must not use the
 * calls of its parent; freeing them does nothing. client/examples/solve_in_c.c is a complete
 * program.
 */
#ifndef STOWAGE_CLIENT_C_STOWAGE_H_
#define STOWAGE_CLIENT_C_STOWAGE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define STOWAGE_API __attribute__((visibility("default")))
#else
#define STOWAGE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stowage_call stowage_call; /* NOLINT(modernize-use-using): this is C */

/* Each makes a call with a request of `size` bytes, which need not outlive it. Null only where
 * memory is exhausted: what is wrong with a request is an event. */

/* The best schedule within a budget. Request: SolveRequest without export_for, and
 *   "working_bytes"    what the solver may allocate, 4 GiB where unset
 *   "timeout_seconds"  after which the best so far is the answer; unset: none
 *   "stream"           whether better answers are events
 * Result: SolveResponse. */
STOWAGE_API stowage_call* stowage_solve(const char* request, size_t size);

/* Makespans for many budgets. Request: FrontierRequest, "working_bytes" and "timeout_seconds".
 * Result: FrontierResponse. */
STOWAGE_API stowage_call* stowage_frontier(const char* request, size_t size);

/* Whether a schedule is valid and fits, and what it costs. Request: SimulateRequest.
 * Result: SimulateResponse. */
STOWAGE_API stowage_call* stowage_simulate(const char* request, size_t size);

/* The best plan that a framework can express, as its settings. Request: SolveRequest with
 * export_for, a name of stowage_catalog(), "working_bytes" and "timeout_seconds"; its solver and
 * options play no part. Result: ExportedPlan, and "full": the schedule of the solver "auto", which
 * no framework limits. */
STOWAGE_API stowage_call* stowage_export(const char* request, size_t size);

/* The schedule of an earlier answer for a chain that was measured anew. Request: SolveRequest, and
 *   "made_for"        the SolveRequest that was answered
 *   "answer"          the SolveResponse
 *   "solver_version"  of the answer's solver, as stowage_catalog() had it then
 * Result: SolveResponse, whose prediction is for the new times. Error 9 (FAILED_PRECONDITION), a
 * sentence without its subject, where the schedule does not serve: "was made for memory 4.00 GiB,
 * now 5.00 GiB". */
STOWAGE_API stowage_call* stowage_reuse(const char* request, size_t size);

/* Ways to save a stage: which operators' results it keeps. Request:
 *   {"operators":[{"name":"linear","seconds":1e-3,"kept":true,"inner_bytes":0,"output_bytes":4096,
 *                  "saves":true,"saves_argument":false}],
 *    "most_bytes":"65536","count":5}
 * as solver/README.md, "Ways to save a stage". Result, those with more bytes first:
 *   {"ways":[{"name":"keep linear","operators":[0],"rerun_seconds":2e-3}]} */
STOWAGE_API stowage_call* stowage_ways(const char* request, size_t size);

/* Budgets of a chain. Request: {"chain":{…}}, and "budget", such as "40%" of the range or "12GiB".
 * Result: "floor_bytes", below which no schedule exists (0 %), "most_bytes", which storing
 * everything takes (100 %), and "budget_bytes" where there is a budget. */
STOWAGE_API stowage_call* stowage_memory(const char* request, size_t size);

/* Sizes and times as Stowage reads and writes them. Request: one of {"size":"12GiB"},
 * {"bytes":"4096"} and {"seconds":0.25}. Result: {"bytes":"12884901888"}, {"text":"4.00 KiB"},
 * {"text":"250.0 ms"}. */
STOWAGE_API stowage_call* stowage_units(const char* request, size_t size);

/* What this library has. Request: {}. Result: {"solvers":[SolverDescription…],
 * "targets":[{"name","framework","setting","expresses","loses","usual","tried"}…]}. */
STOWAGE_API stowage_call* stowage_catalog(const char* request, size_t size);

/* Whether a text of `size` bytes is a JSON object that Stowage reads: UTF-8, no key twice, no null
 * in an array, at most 32 levels. `root`, ended by a null byte, is what errors call it. Result: {}.
 * Errors name the field and the place: "chain.stages[3].name: line 12, column 9: not JSON: …". */
STOWAGE_API stowage_call* stowage_check_json(const char* root, const char* text, size_t size);

/* JSON as the command line prints it: indented, a member a line. Request: {"json":{…}}, whose
 * members keep their order; numbers that are no int64 are doubles. Result: {"text":"{\n …}\n"}. */
STOWAGE_API stowage_call* stowage_print_json(const char* request, size_t size);

/* The next event of a call, ended by a null byte; waits for one for at most `milliseconds`. Null:
 * there is none yet, or the last one was returned. Valid until the next stowage_next() or
 * stowage_free() of this call. */
STOWAGE_API const char* stowage_next(stowage_call* call, int milliseconds);

/* Not 0 once stowage_next() has returned the last event. */
STOWAGE_API int stowage_has_ended(stowage_call* call);

/* Ends a call with an error of code 1 (CANCELLED): a solver stops within some 50 ms, while reading
 * a request and writing a result of a million operations take up to a second. From any thread. */
STOWAGE_API void stowage_cancel(stowage_call* call);

/* Cancels a call that has not ended, waits for its threads and frees it. Null is ignored. */
STOWAGE_API void stowage_free(stowage_call* call);

/* "0.1.0"; constant. */
STOWAGE_API const char* stowage_version(void);

/* The 64-bit FNV-1a hash of bytes, from which routing keys are made. */
STOWAGE_API uint64_t stowage_fnv1a(const char* bytes, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* STOWAGE_CLIENT_C_STOWAGE_H_ */
