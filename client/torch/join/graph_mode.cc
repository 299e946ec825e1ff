// Deciding between trace and block. Invariant: after TryTrace() the network's state is the same as
// before, and trace_ is set only if a run through it cannot be told from a run of the stages by
// output, random states, buffers, or the graph of the backward.
#include "client/torch/join/graph_mode.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/torch/base/torch_versions.h"
#include "client/torch/join/join_stages.h"
#include "client/torch/native/saved_tensors.h"
#include "client/torch/stages/replay.h"

namespace stowage {
namespace {

namespace jit = torch::jit;

// Operations that return numbers of a tensor to the program, which may branch on them.
constexpr std::array kReaders = {"aten::_local_scalar_dense",
                                 "aten::is_nonzero",
                                 "aten::equal",
                                 "aten::nonzero",
                                 "aten::unique_dim",
                                 "aten::masked_select",
                                 "aten::_unique",
                                 "aten::_unique2",
                                 "aten::unique_consecutive",
                                 "aten::unique_dim_consecutive"};

thread_local const char** reader_seen = nullptr;  // of the innermost ReaderWatch

// While in scope, sets `*reader` to the last of kReaders that runs on this thread.
class ReaderWatch {
 public:
  explicit ReaderWatch(const char** reader)
      : outer_(std::exchange(reader_seen, reader)),
        handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&Note).scopes({at::RecordScope::FUNCTION}))) {}
  ~ReaderWatch() {
    at::removeCallback(handle_);
    reader_seen = outer_;
  }
  ReaderWatch(const ReaderWatch&) = delete;
  ReaderWatch& operator=(const ReaderWatch&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> Note(const at::RecordFunction& function) {
    const absl::string_view name(function.name());
    const auto* const reader = std::find(kReaders.begin(), kReaders.end(), name);
    if (reader != kReaders.end()) *reader_seen = *reader;
    return nullptr;
  }

  const char** const outer_;
  const at::CallbackHandle handle_;
};

// Parameters, then buffers, each once. They are inputs of a trace, so that it reads and writes the
// module's own tensors.
Tensors TensorsOf(const std::shared_ptr<torch::nn::Module>& module) {
  Tensors all;
  if (module == nullptr) return all;
  std::unordered_set<const void*> seen;
  for (const Tensors& tensors : {module->parameters(), module->buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      if (seen.insert(tensor.unsafeGetTensorImpl()).second) all.push_back(tensor);
    }
  }
  return all;
}

// What a trace treats as constant: a trace is valid while these numbers do not change.
std::vector<int64_t> AssumptionsOf(const at::Tensor& input, const Tensors& tensors,
                                   const std::shared_ptr<torch::nn::Module>& module) {
  std::vector<int64_t> all = {AutocastOnGpu(), AutocastOnCpu()};
  const auto add = [&all](const at::Tensor& tensor) {
    all.push_back(tensor.dim());
    all.insert(all.end(), tensor.sizes().begin(), tensor.sizes().end());
    all.insert(all.end(), tensor.strides().begin(), tensor.strides().end());
    all.push_back(static_cast<int64_t>(tensor.scalar_type()));
    all.push_back(tensor.requires_grad());
  };
  add(input);
  for (const at::Tensor& tensor : tensors) {
    all.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor.unsafeGetTensorImpl())));
    add(tensor);
  }
  if (module == nullptr) return all;
  for (const auto& part : module->modules()) all.push_back(part->is_training());
  return all;
}

// The graph that a backward from `output` runs, as text: for each function, in breadth-first order,
// its name, hooks, the parameter it accumulates into, and its edges.
std::string BackwardGraphOf(const at::Tensor& output) {
  if (!output.requires_grad()) return "none";
  const torch::autograd::Edge root = torch::autograd::impl::gradient_edge(output);
  std::vector<torch::autograd::Node*> nodes = {root.function.get()};
  std::unordered_map<const torch::autograd::Node*, size_t> numbers = {{nodes[0], 0}};
  std::string text = absl::StrCat(root.input_nr);
  for (size_t i = 0; i < nodes.size(); ++i) {
    torch::autograd::Node& node = *nodes[i];
    absl::StrAppend(&text, "\n", node.name(), " ", HooksBefore(node), " ",
                    node.post_hooks().size());
    if (const auto* const sum = dynamic_cast<torch::autograd::AccumulateGrad*>(&node)) {
      absl::StrAppend(&text, " ", absl::Hex(sum->variable.unsafeGetTensorImpl()));
    }
    for (const torch::autograd::Edge& edge : node.next_edges()) {
      if (!edge.is_valid()) {
        absl::StrAppend(&text, " -");
        continue;
      }
      const auto [found, fresh] = numbers.try_emplace(edge.function.get(), nodes.size());
      if (fresh) nodes.push_back(edge.function.get());
      absl::StrAppend(&text, " ", found->second, ":", edge.input_nr);
    }
  }
  return text;
}

// The results of one forward.
struct Rehearsed {
  at::Tensor output;
  std::string backward;
  Tensors state;
};

// Runs forwards without side effects: saves no tensors, and restores random states and buffers.
class Rehearsal {
 public:
  Rehearsal(Tensors buffers, c10::Device device) : state_(std::move(buffers), device) {}

  Rehearsed operator()(const std::function<at::Tensor()>& forward) {
    Rehearsed rehearsed;
    try {
      const SavedTensorScope drop([](const at::Tensor&) -> SavedTensor {
        return []() -> at::Tensor {
          TORCH_CHECK(false, "runs a backward inside its forward");
          return {};
        };
      });
      rehearsed.output = forward();
    } catch (...) {
      state_.Restore();
      throw;
    }
    TORCH_CHECK(rehearsed.output.defined(), "returns no tensor");
    rehearsed.backward = BackwardGraphOf(rehearsed.output);
    rehearsed.output = rehearsed.output.detach();
    rehearsed.state = state_.Current();
    state_.Restore();
    return rehearsed;
  }

 private:
  RandomAndBuffers state_;
};

// "" if the results are equal; else the reason for running as a block.
std::string Difference(const Rehearsed& one, const Rehearsed& other) {
  if (one.backward != other.backward) return "its backward has functions that a trace does not see";
  if (!one.output.is_same_size(other.output) || !at::equal(one.output, other.output)) {
    return "its trace has another output";
  }
  for (size_t i = 0; i < one.state.size(); ++i) {
    if (at::equal(one.state[i], other.state[i])) continue;
    return "its trace leaves other random states or buffers";
  }
  return "";
}

// Whether the graph has tensor constants: tensors that are neither inputs nor computed.
bool HoldsTensors(const jit::Graph& graph) {
  const auto nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const jit::Node* node) {
    return node->kind() == c10::prim::Constant &&
           node->output()->type()->isSubtypeOf(*c10::TensorType::get());
  });
}

// Why the stages are not traced at all; "" if they may be.
std::string UntraceableReason(const std::vector<TorchStage>& stages) {
  for (const TorchStage& stage : stages) {
    if (stage.no_recompute) return absl::StrCat(stage.name, " may not run twice");
  }
  // A trace does not contain the casts that autocast has cached.
  return AutocastOnGpu() || AutocastOnCpu() ? "autocast" : "";
}

std::string FirstLine(absl::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

// A recorded function of an input and of a module's tensors.
class GraphUnit::Trace {
 public:
  // Records `forward` on this input.
  Trace(const at::Tensor& input, const Tensors& tensors,
        const std::function<at::Tensor(const at::Tensor&)>& forward) {
    const auto record = [&forward](const jit::Stack& inputs) {
      const jit::tracer::NoWarn quiet;
      return jit::Stack{forward(inputs.front().toTensor())};
    };
    const auto no_name = [](const at::Tensor&) { return std::string(); };
    const auto recorded = jit::tracer::trace(StackOf(input, tensors), record, no_name);
    std::shared_ptr<jit::Graph> graph = recorded.first->graph;
    holds_tensors_ = HoldsTensors(*graph);
    output_ = recorded.second.front().toTensor();
    // Only the required passes: optimizations would change which tensors are saved.
    jit::runRequiredPasses(graph);
    code_ = jit::Code(graph, "unit");
  }

  bool holds_tensors() const { return holds_tensors_; }
  at::Tensor TakeOutput() { return std::exchange(output_, {}); }  // of the recorded run

  at::Tensor operator()(const at::Tensor& input, const Tensors& tensors) const {
    jit::Stack stack = StackOf(input, tensors);
    try {
      jit::InterpreterState(code_).run(stack);
    } catch (const c10::Error& error) {  // of the interpreter itself in LibTorch 2
      if (!absl::StrContains(error.what_without_backtrace(), kInterpreted)) throw;
      Rethrow(error.what_without_backtrace());
    } catch (const std::runtime_error& error) {
      Rethrow(error.what());
    }
    return stack.front().toTensor();
  }

 private:
  static jit::Stack StackOf(const at::Tensor& input, const Tensors& tensors) {
    jit::Stack stack = {input};
    stack.insert(stack.end(), tensors.begin(), tensors.end());
    return stack;
  }

  // What stands before the message of an operation that the interpreter ran.
  static constexpr absl::string_view kInterpreted = "RuntimeError: ";

  // The interpreter converts an operation's exception to text with a stack trace before it. Throws
  // the original message again, as OutOfMemoryError where it is one.
  [[noreturn]] static void Rethrow(absl::string_view what) {
    const size_t found = what.rfind(kInterpreted);
    if (found != absl::string_view::npos) what = what.substr(found + kInterpreted.size());
    const std::string line = FirstLine(what);
    const bool memory = absl::StrContains(line, "out of memory");
    TORCH_CHECK_WITH(OutOfMemoryError, !memory, line);
    TORCH_CHECK(false, line);
  }

  jit::Code code_;
  at::Tensor output_;
  bool holds_tensors_ = false;
};

GraphUnit::GraphUnit(std::vector<TorchStage> stages)
    : stages_(std::move(stages)), name_(JoinedName(stages_)), module_(JoinedModule(stages_)) {}

GraphUnit::~GraphUnit() = default;

at::Tensor GraphUnit::RunAsBlock(at::Tensor value) const {
  for (const TorchStage& stage : stages_) value = stage.forward(value);
  return value;
}

at::Tensor GraphUnit::Forward(const at::Tensor& input) {
  const Tensors tensors = TensorsOf(module_);
  std::vector<int64_t> assumptions = AssumptionsOf(input, tensors, module_);
  if (assumptions != assumptions_) {
    TryTrace(input, tensors);
    assumptions_ = std::move(assumptions);
  }
  return trace_ == nullptr ? RunAsBlock(input) : (*trace_)(input, tensors);
}

void GraphUnit::TryTrace(const at::Tensor& input, const Tensors& tensors) {
  trace_.reset();
  block_reason_ = UntraceableReason(stages_);
  if (!block_reason_.empty()) return;
  try {
    Rehearsal rehearse(module_ == nullptr ? Tensors() : module_->buffers(), input.device());
    std::unique_ptr<Trace> trace;
    const char* reader = nullptr;
    // The first run records the trace, the second runs it; both from the same state.
    const Rehearsed recorded = rehearse([&] {
      const ReaderWatch watch(&reader);
      trace = std::make_unique<Trace>(
          input, tensors, [this](const at::Tensor& value) { return RunAsBlock(value); });
      return trace->TakeOutput();
    });
    if (reader != nullptr) {
      block_reason_ = absl::StrCat("reads numbers of a tensor: ", reader);
    } else if (trace->holds_tensors()) {
      block_reason_ = "holds a tensor that is neither its input nor of its module";
    } else {
      block_reason_ = Difference(recorded, rehearse([&] { return (*trace)(input, tensors); }));
    }
    if (block_reason_.empty()) trace_ = std::move(trace);
  } catch (const c10::Error& error) {
    block_reason_ = FirstLine(error.what_without_backtrace());
  } catch (const std::exception& error) {
    block_reason_ = FirstLine(error.what());
  }
}

absl::StatusOr<std::vector<TorchStage>> InModes(const std::vector<TorchStage>& stages,
                                                const Execution& execution) {
  const int count = execution.chain().length();
  // The unit after the last stage is the loss.
  const int planned = execution.unit(count + 1).first - 1;
  if (planned != static_cast<int>(stages.size())) {
    return absl::FailedPreconditionError(absl::StrCat("the plan is of a network of ", planned,
                                                      " stages; this one has ", stages.size()));
  }
  std::vector<TorchStage> run;
  for (int e = 1; e <= count; ++e) {
    const Unit unit = execution.unit(e);
    const auto first = stages.begin() + unit.first - 1;
    if (execution.mode(e) == Mode::kEager) {
      run.push_back(*first);
      continue;
    }
    const auto last = stages.begin() + unit.last;
    if (std::any_of(first, last, IsEager)) {  // a plan for stages that were others
      run.push_back(JoinedStage({first, last}));
      continue;
    }
    const auto fused = std::make_shared<GraphUnit>(std::vector<TorchStage>(first, last));
    run.push_back({.name = fused->name(),
                   .forward = [fused](const at::Tensor& input) { return fused->Forward(input); },
                   .module = fused->module(),
                   .no_recompute = std::any_of(
                       first, last, [](const TorchStage& stage) { return stage.no_recompute; }),
                   .unit = fused});
  }
  return run;
}

Execution AllInGraphMode(const std::vector<TorchStage>& stages) {
  Chain chain;
  for (const TorchStage& stage : stages) {
    Stage& added = chain.stages.emplace_back();
    added.name = stage.name;
    added.graph = GraphCosts();
    added.fusion_group = stage.fusion_group;
    added.control_flow = IsEager(stage);
  }
  const ChainUnits units(chain);
  std::vector<bool> graph;
  for (const Unit& unit : units) graph.push_back(unit.has_graph);
  return Execution::Of(chain, units, graph);
}

}  // namespace stowage
