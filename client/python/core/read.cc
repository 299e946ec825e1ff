#include "client/python/core/read.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "client/python/core/reader.h"
#include "client/python/core/write.h"

namespace stowage {
namespace {

namespace py = pybind11;

bool ReadCosts(Reader& reader, const Path& path, py::handle object,
               std::optional<GraphCosts>* costs) {
  GraphCosts& to = costs->emplace();
  return reader.ReadDict(path, object,
                         [&](absl::string_view key, py::handle value, const Path& at) {
                           if (key == "forward_seconds")
                             return reader.Read(at, value, &to.forward_seconds);
                           if (key == "backward_seconds")
                             return reader.Read(at, value, &to.backward_seconds);
                           if (key == "saved_bytes") return reader.Read(at, value, &to.saved_bytes);
                           if (key == "forward_overhead_bytes")
                             return reader.Read(at, value, &to.forward_overhead_bytes);
                           if (key == "backward_overhead_bytes") {
                             return reader.Read(at, value, &to.backward_overhead_bytes);
                           }
                           return false;
                         });
}

bool ReadSaveOption(Reader& reader, const Path& path, py::handle object, SaveOption* to) {
  return reader.ReadDict(path, object,
                         [&](absl::string_view key, py::handle value, const Path& at) {
                           if (key == "name") return reader.Read(at, value, &to->name);
                           if (key == "saved_bytes")
                             return reader.Read(at, value, &to->saved_bytes);
                           if (key == "backward_seconds")
                             return reader.Read(at, value, &to->backward_seconds);
                           if (key == "backward_overhead_bytes") {
                             return reader.Read(at, value, &to->backward_overhead_bytes);
                           }
                           if (key != "save_overhead_bytes") return false;
                           return reader.Read(at, value, &to->save_overhead_bytes);
                         });
}

bool ReadStage(Reader& reader, const Path& path, py::handle object, Stage* to) {
  return reader.ReadDict(
      path, object, [&](absl::string_view key, py::handle value, const Path& at) {
        if (key == "name") return reader.Read(at, value, &to->name);
        if (key == "forward_seconds") return reader.Read(at, value, &to->forward_seconds);
        if (key == "backward_seconds") return reader.Read(at, value, &to->backward_seconds);
        if (key == "output_bytes") return reader.Read(at, value, &to->output_bytes);
        if (key == "saved_bytes") return reader.Read(at, value, &to->saved_bytes);
        if (key == "gradient_bytes") return reader.Read(at, value, &to->gradient_bytes);
        if (key == "forward_overhead_bytes") {
          return reader.Read(at, value, &to->forward_overhead_bytes);
        }
        if (key == "backward_overhead_bytes") {
          return reader.Read(at, value, &to->backward_overhead_bytes);
        }
        if (key == "no_recompute") return reader.Read(at, value, &to->no_recompute);
        if (key == "no_offload") return reader.Read(at, value, &to->no_offload);
        if (key == "graph") return ReadCosts(reader, at, value, &to->graph);
        if (key == "fusion_group") return reader.Read(at, value, &to->fusion_group);
        if (key == "control_flow") return reader.Read(at, value, &to->control_flow);
        if (key == "input_unread") return reader.Read(at, value, &to->input_unread);
        if (key == "save_overhead_bytes") return reader.Read(at, value, &to->save_overhead_bytes);
        if (key == "replay_seconds") return reader.Read(at, value, &to->replay_seconds);
        if (key == "save_options") {
          return reader.ReadList(at, value, [&](py::handle option, const Path& option_at) {
            ReadSaveOption(reader, option_at, option, &to->save_options.emplace_back());
          });
        }
        return false;
      });
}

bool Read(Reader& reader, const Path& path, py::handle object, Chain* to) {
  return reader.ReadDict(
      path, object, [&](absl::string_view key, py::handle value, const Path& at) {
        if (key == "name") return reader.Read(at, value, &to->name);
        if (key == "input_bytes") return reader.Read(at, value, &to->input_bytes);
        if (key == "input_gradient_bytes") return reader.Read(at, value, &to->input_gradient_bytes);
        if (key == "stages") {
          return reader.ReadList(at, value, [&](py::handle stage, const Path& stage_at) {
            ReadStage(reader, stage_at, stage, &to->stages.emplace_back());
          });
        }
        if (key == "loss") return ReadStage(reader, at, value, &to->loss);
        if (key == "graph_entry_seconds") return reader.Read(at, value, &to->graph_entry_seconds);
        return key == "provenance";  // no solver reads it
      });
}

bool Read(Reader& reader, const Path& path, py::handle object, Platform* to, bool* has_memory) {
  return reader.ReadDict(path, object,
                         [&](absl::string_view key, py::handle value, const Path& at) {
                           if (key == "name") return reader.Read(at, value, &to->name);
                           if (key == "memory_bytes") {
                             *has_memory = true;
                             return reader.Read(at, value, &to->memory_bytes);
                           }
                           if (key == "offload_bytes_per_second") {
                             return reader.Read(at, value, &to->offload_bytes_per_second);
                           }
                           if (key == "prefetch_bytes_per_second") {
                             return reader.Read(at, value, &to->prefetch_bytes_per_second);
                           }
                           if (key == "transfer_latency_seconds") {
                             return reader.Read(at, value, &to->transfer_latency_seconds);
                           }
                           if (key == "half_duplex")
                             return reader.Read(at, value, &to->half_duplex);
                           if (key == "host_memory_bytes")
                             return reader.Read(at, value, &to->host_memory_bytes);
                           return false;
                         });
}

bool Read(Reader& reader, const Path& path, py::handle object, SolveOptions* to) {
  return reader.ReadDict(path, object,
                         [&](absl::string_view key, py::handle value, const Path& at) {
                           if (key == "memory_slots")
                             return reader.Read(at, value, &to->memory_slots);
                           if (key == "segments") return reader.Read(at, value, &to->segments);
                           if (key == "time_precision")
                             return reader.Read(at, value, &to->time_precision);
                           if (key == "report_rounding_loss")
                             return reader.Read(at, value, &to->report_rounding_loss);
                           if (key == "tight_bound")
                             return reader.Read(at, value, &to->tight_bound);
                           if (key == "use_cache") return reader.Read(at, value, &to->use_cache);
                           if (key == "time_budget_seconds")
                             return reader.Read(at, value, &to->time_budget_seconds);
                           return false;
                         });
}

// Sets `to` to the enumerator whose name, as in JSON, is the value's.
template <typename Value, typename Name>
bool ReadName(Reader& reader, const Path& path, py::handle value, std::initializer_list<Value> all,
              Name name_of, absl::string_view wanted, Value* to) {
  std::string name;
  if (!PyUnicode_Check(value.ptr())) return reader.Refuse(path, value, wanted);
  reader.Read(path, value, &name);
  for (const Value one : all) {
    if (name_of(one) != name) continue;
    *to = one;
    return true;
  }
  return reader.Refuse(path, value, wanted);
}

bool ReadOperation(Reader& reader, const Path& path, py::handle object, Operation* to) {
  using Kind = OperationKind;
  bool has_kind = false;
  const bool read =
      reader.ReadDict(path, object, [&](absl::string_view key, py::handle value, const Path& at) {
        if (key == "kind") {
          has_kind = true;
          return ReadName(
              reader, at, value,
              {Kind::kForwardSave, Kind::kForwardCheckpoint, Kind::kForwardDiscard, Kind::kBackward,
               Kind::kOffload, Kind::kRelease, Kind::kPrefetch, Kind::kForwardSaveDiscard},
              KindName, "a kind of operation, such as FORWARD_SAVE", &to->kind);
        }
        if (key == "stage") return reader.Read(at, value, &to->stage);
        if (key == "mode") {
          const auto name = [](Mode mode) { return mode == Mode::kGraph ? "GRAPH" : "EAGER"; };
          return ReadName(reader, at, value, {Mode::kEager, Mode::kGraph}, name,
                          "a mode: EAGER or GRAPH", &to->mode);
        }
        if (key == "first_stage") return reader.Read(at, value, &to->first_stage);
        if (key == "save_option") return reader.Read(at, value, &to->save_option);
        return false;
      });
  if (to->first_stage == to->stage) to->first_stage = 0;  // of one stage
  if (!has_kind && PyDict_Check(object.ptr())) {
    reader.Add(Path{&path, "kind"}, "is missing; set e.g. FORWARD_SAVE");
  }
  return read;
}

bool Read(Reader& reader, const Path& path, py::handle object, Schedule* to) {
  return reader.ReadDict(
      path, object, [&](absl::string_view key, py::handle value, const Path& at) {
        if (key != "operations") return false;
        return reader.ReadList(at, value, [&](py::handle operation, const Path& operation_at) {
          ReadOperation(reader, operation_at, operation, &to->operations.emplace_back());
        });
      });
}

constexpr Path kChain{nullptr, "chain"};
constexpr Path kPlatform{nullptr, "platform"};
constexpr Path kSchedule{nullptr, "schedule"};
constexpr Path kAnswer{nullptr, "answer"};
constexpr absl::string_view kNoMemory =
    "is missing; give the device memory for activations, in bytes";

// The fields that requests have in common. `more` reads the others of the request.
template <typename Request, typename More>
void ReadRequest(Reader& reader, py::handle object, Request* request, bool* has_memory, More more) {
  const Path root{nullptr, "request"};
  reader.ReadDict(root, object, [&](absl::string_view key, py::handle value, const Path& at) {
    const Path top{nullptr, at.field};  // paths begin with the field of the request
    if (key == "chain") return Read(reader, top, value, &request->chain);
    if (key == "platform") return Read(reader, top, value, &request->platform, has_memory);
    return more(key, value, top);
  });
}

template <typename Request>
auto SolverAndOptions(Reader& reader, Request* request) {
  return [&reader, request](absl::string_view key, py::handle value, const Path& at) {
    if (key == "solver") return reader.Read(at, value, &request->solver);
    if (key == "options") return Read(reader, at, value, &request->options);
    return false;
  };
}

std::string OutcomeText(Outcome outcome) { return std::string(OutcomeName(outcome)); }

std::string GuaranteeText(Guarantee guarantee) { return GuaranteeName(guarantee); }

bool ReadLoss(Reader& reader, const Path& path, py::handle object,
              std::optional<RoundingLoss>* loss) {
  RoundingLoss& to = loss->emplace();
  return reader.ReadDict(path, object,
                         [&](absl::string_view key, py::handle value, const Path& at) {
                           if (key == "finer_slots") return reader.Read(at, value, &to.finer_slots);
                           if (key == "finer_makespan_seconds")
                             return reader.Read(at, value, &to.finer_seconds);
                           if (key == "loss") return reader.Read(at, value, &to.loss);
                           return false;
                         });
}

}  // namespace

Chain ReadChain(py::handle object, std::vector<FieldViolation>* violations) {
  Reader reader(violations);
  Chain chain;
  Read(reader, kChain, object, &chain);
  return chain;
}

SolveRequest ReadSolveRequest(py::handle object, std::vector<FieldViolation>* violations) {
  Reader reader(violations);
  SolveRequest request;
  bool has_memory = false;
  ReadRequest(reader, object, &request, &has_memory, SolverAndOptions(reader, &request));
  if (!has_memory) reader.Add(Path{&kPlatform, "memory_bytes"}, std::string(kNoMemory));
  return request;
}

FrontierRequest ReadFrontierRequest(py::handle object, std::vector<FieldViolation>* violations) {
  Reader reader(violations);
  FrontierRequest request;
  bool has_memory = false;  // not needed
  const auto common = SolverAndOptions(reader, &request);
  ReadRequest(reader, object, &request, &has_memory,
              [&](absl::string_view key, py::handle value, const Path& at) {
                if (key == "points") return reader.Read(at, value, &request.points);
                if (key != "memory_bytes") return common(key, value, at);
                return reader.ReadList(at, value, [&](py::handle bytes, const Path& bytes_at) {
                  reader.Read(bytes_at, bytes, &request.budgets.emplace_back());
                });
              });
  return request;
}

SimulateRequest ReadSimulateRequest(py::handle object, std::vector<FieldViolation>* violations) {
  Reader reader(violations);
  SimulateRequest request;
  bool has_memory = false;
  ReadRequest(reader, object, &request, &has_memory,
              [&](absl::string_view key, py::handle value, const Path&) {
                return key == "schedule" && Read(reader, kSchedule, value, &request.schedule);
              });
  if (!has_memory) reader.Add(Path{&kPlatform, "memory_bytes"}, std::string(kNoMemory));
  return request;
}

Answer ReadAnswer(py::handle object, std::vector<FieldViolation>* violations) {
  Reader reader(violations);
  Answer answer;
  reader.ReadDict(kAnswer, object, [&](absl::string_view key, py::handle value, const Path& at) {
    if (key == "outcome") {
      return ReadName(reader, at, value,
                      {Outcome::kOptimal, Outcome::kFeasible, Outcome::kInfeasible}, OutcomeText,
                      "an outcome, such as OPTIMAL", &answer.outcome);
    }
    if (key == "limit") {
      return ReadName(reader, at, value,
                      {Guarantee::kOptimal, Guarantee::kHeuristic, Guarantee::kUpToRounding,
                       Guarantee::kTimeRanOut, Guarantee::kBestOfClass},
                      GuaranteeText, "a limit, such as HEURISTIC", &answer.guarantee);
    }
    if (key == "schedule") return Read(reader, at, value, &answer.schedule);
    if (key == "minimum_memory_bytes") return reader.Read(at, value, &answer.minimum_memory_bytes);
    if (key == "solver") return reader.Read(at, value, &answer.solver);
    if (key == "rounding_loss") return ReadLoss(reader, at, value, &answer.rounding_loss);
    if (key != "notes") return false;
    return reader.ReadList(at, value, [&](py::handle note, const Path& note_at) {
      reader.Read(note_at, note, &answer.explanation.notes.emplace_back());
    });
  });
  return answer;
}

}  // namespace stowage
