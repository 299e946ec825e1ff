"""What is solved: a chain of layers, the device that trains it, and schedules.

Units: bytes, seconds, bytes a second. Stages are numbered from 1 to L; the loss is stage L+1; value
0 is the chain's input. The classes mirror the API's messages field for field (`model.proto`); a
field that is None is unset.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import ClassVar

from stowage.serialization.codec import OMIT_EMPTY, Int32, Struct
from stowage.serialization.message import Message


class OperationKind(enum.Enum):
    """What an entry of a schedule does with stage or value l."""

    FORWARD_SAVE = 1
    """Runs forward l and leaves all that its backward needs; value l-1 stays."""
    FORWARD_CHECKPOINT = 2
    """Runs forward l and leaves its output; value l-1 stays."""
    FORWARD_DISCARD = 3
    """Runs forward l and leaves its output; value l-1 is dropped."""
    BACKWARD = 4
    """Runs backward l; leaves the gradient of value l-1, drops what it needed."""
    OFFLOAD = 5
    """Starts copying value l to the host; it stays on the device."""
    RELEASE = 6
    """Waits until that copy is complete; then value l leaves the device."""
    PREFETCH = 7
    """Takes device memory for value l and starts copying it back; what needs it waits."""
    FORWARD_SAVE_DISCARD = 8
    """Runs forward l and leaves all that its backward needs; value l-1 is dropped. Only of a stage
    that is input_unread."""


class Mode(enum.Enum):
    """How a stage executes, in one mode throughout a schedule."""

    EAGER = 0
    """Operator by operator."""
    GRAPH = 1
    """Compiled, and as one with its fusion group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCosts(Message):
    """A stage compiled and fused: fast, and coarse in memory. Output and gradient are the stage's.

    Attributes:
        forward_seconds: Of the forward in graph mode.
        backward_seconds: Of the backward.
        saved_bytes: All that the backward needs, the output included.
        forward_overhead_bytes: Temporary memory beyond input and output.
        backward_overhead_bytes: Temporary memory beyond inputs and outputs.
    """

    forward_seconds: float = 0.0
    backward_seconds: float = 0.0
    saved_bytes: int = 0
    forward_overhead_bytes: int = 0
    backward_overhead_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOption(Message):
    """A way to save a stage that keeps less than the stage's own and reruns the rest within the
    backward: selective checkpointing. Forwards cost the same in every way.

    Attributes:
        name: Free text.
        saved_bytes: Size of all that it keeps: from the stage's output_bytes to its saved_bytes.
        backward_seconds: Of the backward, what it reruns included; at least the stage's.
        backward_overhead_bytes: Temporary memory, what it reruns included.
        save_overhead_bytes: Temporary memory of a forward that saves in this way, beyond input and
            saved_bytes; None: the stage's forward_overhead_bytes.
        kept: What it keeps, in the words of the framework that `export` writes settings for: calls
            of PyTorch's operators by their number in the stage, from 0 ("aten.mm.default#2");
            names of JAX's `checkpoint_name`; modules of the stage that torch-remat saves.
        rerun: What its backward reruns: Megatron's modules ("core_attn").
    """

    name: str = ""
    saved_bytes: int = 0
    backward_seconds: float = 0.0
    backward_overhead_bytes: int = 0
    save_overhead_bytes: int | None = None
    kept: tuple[str, ...] = field(default=(), metadata=OMIT_EMPTY)
    rerun: tuple[str, ...] = field(default=(), metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Message):
    """One layer or block of layers.

    Attributes:
        name: Free text, unique in the chain when set.
        forward_seconds: The same for every kind of forward.
        backward_seconds: Of the backward.
        output_bytes: Size of the output.
        saved_bytes: Size of all that the backward needs, the output included.
        gradient_bytes: Size of the output's gradient; None: output_bytes. The loss has none.
        forward_overhead_bytes: Temporary memory beyond input and output.
        backward_overhead_bytes: Temporary memory beyond inputs and outputs.
        no_recompute: The forward may run only once, and then saves.
        no_offload: The stage's value may not leave the device.
        graph: The costs in graph mode; None: the stage only runs in eager mode.
        fusion_group: Neighbouring stages of one group run as one in graph mode.
        control_flow: Excludes the stage and its group from graph mode.
        replay_seconds: Of a forward that its own backward follows at once; None: forward_seconds.
        input_unread: The backward does not read the stage's input, which may go before it.
        save_options: Further ways to save the stage, at most 5.
        save_overhead_bytes: Temporary memory of a forward that saves, beyond input and saved_bytes;
            None: forward_overhead_bytes.
    """

    name: str = ""
    forward_seconds: float = 0.0
    backward_seconds: float = 0.0
    output_bytes: int = 0
    saved_bytes: int = 0
    gradient_bytes: int | None = None
    forward_overhead_bytes: int = 0
    backward_overhead_bytes: int = 0
    no_recompute: bool = False
    no_offload: bool = False
    graph: GraphCosts | None = None
    fusion_group: str | None = None
    control_flow: bool | None = None
    replay_seconds: float | None = None
    input_unread: bool | None = None
    save_options: tuple[SaveOption, ...] = field(default=(), metadata=OMIT_EMPTY)
    save_overhead_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Message):
    """A network as a chain of stages. Weights, their gradients and the optimizer's state are not
    in here: take them off the memory first.

    Attributes:
        name: Free text.
        input_bytes: Size of the input.
        input_gradient_bytes: Size of the gradient that the first backward produces; 0 when the
            input needs none; None: input_bytes.
        stages: At least one, at most 10,000.
        loss: Stage L+1; None: it takes no time and no memory.
        provenance: Where the numbers come from: JSON that no solver reads.
        graph_entry_seconds: Time to enter graph mode, once for every run of neighbouring stages
            in graph mode; None: 0.
    """

    root: ClassVar[str] = "chain"

    name: str = ""
    input_bytes: int = 0
    input_gradient_bytes: int | None = None
    stages: tuple[Stage, ...] = ()
    loss: Stage | None = None
    provenance: Struct | None = field(default=None, hash=False)
    graph_entry_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform(Message):
    """The device that trains and its link to host memory.

    Attributes:
        name: Free text.
        memory_bytes: Device memory for activations and their gradients: the budget.
        offload_bytes_per_second: Device to host; 0: no value can be offloaded.
        prefetch_bytes_per_second: Host to device; None: as offload.
        transfer_latency_seconds: Fixed cost of each transfer.
        half_duplex: Both directions share one link.
        host_memory_bytes: Most that offloaded values may hold; 0: unlimited.
    """

    root: ClassVar[str] = "platform"

    name: str = ""
    memory_bytes: int | None = None
    offload_bytes_per_second: float = 0.0
    prefetch_bytes_per_second: float | None = None
    transfer_latency_seconds: float = 0.0
    half_duplex: bool = False
    host_memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Message):
    """One entry of a schedule.

    Attributes:
        kind: What it does.
        stage: l; 0 is the chain's input (transfers only), L+1 the loss. Of a fusion group in graph
            mode the last stage.
        mode: Of a forward or a backward; None: EAGER.
        first_stage: Of a fusion group in graph mode; None: stage.
        save_option: Of a forward that saves: the way in the stage's save_options, from 1; None:
            the stage's own.
    """

    root: ClassVar[str] = "operation"

    kind: OperationKind
    stage: Int32 = 0
    mode: Mode | None = None
    first_stage: Int32 | None = None
    save_option: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Message):
    """A list of operations in program order: what a training process issues for one step.

    Attributes:
        operations: At most 1,000,000.
    """

    root: ClassVar[str] = "schedule"

    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveOptions(Message):
    """What a caller may set of a solve. A solver ignores what it does not read.

    Attributes:
        memory_slots: How finely a dynamic program divides memory; 0: the solver's default.
        segments: How many segments `periodic` cuts; 0: the best of all counts.
        time_precision: Relative grid that times and bandwidths are rounded to before solving, 0
            (exact) to 0.5; None: 0.01 at a server, exact in this process.
        report_rounding_loss: Solve again with ten times as many slots and report what rounding
            costs.
        tight_bound: Ignored. It asked for a closer lower bound.
        use_cache: Whether a server may answer from its cache; None: yes.
        time_budget_seconds: Wall time after which the best schedule so far is the answer; 0: none.
    """

    root: ClassVar[str] = "options"

    memory_slots: int = 0
    segments: Int32 = 0
    time_precision: float | None = None
    report_rounding_loss: bool = False
    tight_bound: bool = False
    use_cache: bool | None = None
    time_budget_seconds: float = 0.0
