"""Plans as the settings of frameworks, as `stowage export` prints them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from stowage import native
from stowage.answer import Answer, ComparedSchedule, ExportedPlan
from stowage.calls import CALLS
from stowage.errors import DeadlineError, InfeasibleError, invalid
from stowage.local import Memory, parse_bytes
from stowage.model import Chain, Platform
from stowage.simulation import chain_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTarget:
    """A framework that `export` writes settings for.

    Attributes:
        name: What `export` calls it.
        framework: With the release that the output was checked with.
        setting: What is written.
        expresses: The plans that it can express.
        loses: What it cannot.
        usual: What its users set where they set no more than they must.
        tried: How the output was checked.
    """

    name: str
    framework: str
    setting: str
    expresses: str
    loses: str
    usual: str
    tried: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A plan that a framework can express. `str()` of it is its text.

    Attributes:
        text: The settings or code, to paste; the comparison is in its comments.
        exported: The plan.
        usual: The framework's default, which may not fit; None: it would run a stage twice that may
            run only once.
        full: What the solver `auto` finds, which no framework limits; None: nothing fits.
    """

    text: str
    exported: ComparedSchedule
    usual: ComparedSchedule | None
    full: ComparedSchedule | None

    def __str__(self) -> str:
        return self.text


def export_targets() -> tuple[ExportTarget, ...]:
    """The frameworks that `export` knows."""
    return tuple(ExportTarget(**values) for values in native.call("catalog", {})["targets"])


def export(
    answer: Answer,
    target: str,
    *,
    chain: Chain | None = None,
    layers: tuple[int, int] | str | None = None,
    working_memory: Memory = "4GiB",
    cancel: threading.Event | None = None,
) -> Export:
    """The best plan that a framework can express for an answer's chain and budget, as its settings.

    The answer's own schedule plays no part: plans of a framework are solved for, since what is
    made of another schedule may be slow or take too much memory.

    Args:
        answer: Of `solve` or a server, feasible or not; has the platform.
        target: A name from `export_targets()`.
        chain: What the answer was solved for; None: the answer's own.
        layers: First and last stage, counted from 1, that are the framework's layers, or a pattern
            of their names, as in "layers.{n}", of which each layer has a number; the others are
            saved. None: all, which deepspeed needs. Without a pattern a fusion group is one layer.
            For pytorch and jax each stage is one.
        working_memory: The most memory that a solver may take.
        cancel: Ends the call with CancelledError when it is set.
    Raises:
        InfeasibleError: The framework can express nothing that fits; has the least memory.
        InvalidRequestError: With every violated field.
    """
    chain, platform = solved_for(answer, chain)
    request = {
        "chain": chain.to_dict(),
        "platform": platform.to_dict(),
        "export_for": target,
        "export_layers": layers_text(layers),
        "working_bytes": parse_bytes(working_memory, "working_memory"),
    }
    with CALLS.call(cancel) as cancelled:
        found = native.call(
            "export",
            request,
            cancelled=cancelled,
            names={"export_for": "target", "export_layers": "layers"},
        )
    full = found.pop("full", None)
    return _export_of(
        ExportedPlan.from_dict(found),
        target,
        platform,
        None if full is None else ComparedSchedule.from_dict(full),
    )


def solved_for(answer: Answer, chain: Chain | None) -> tuple[Chain, Platform]:
    """What an answer was solved for.

    Raises:
        InvalidRequestError: The answer does not have it.
    """
    chain = chain_of(answer, chain)
    if answer.platform is None:
        raise invalid("answer.platform", "is missing: export needs the memory of an answer")
    return chain, answer.platform


def layers_text(layers: tuple[int, int] | str | None) -> str:
    """As the command line takes them."""
    if layers is None or isinstance(layers, str):
        return layers or ""
    return f"{layers[0]}:{layers[1]}"


def export_of(answer: Answer, target: str) -> Export:
    """The export of a server's answer that has one.

    Raises:
        InfeasibleError: The framework can express nothing that fits.
        DeadlineError: No plan was found before time ran out.
    """
    assert answer.exported is not None
    assert answer.platform is not None
    full = None
    if answer.schedule is not None and answer.prediction is not None:
        solver = answer.origin.solver if answer.origin is not None else ""
        full = ComparedSchedule(
            name=f"full schedule ({solver})",
            schedule=answer.schedule,
            prediction=answer.prediction,
            fits=True,
        )
    return _export_of(answer.exported, target, answer.platform, full)


def _export_of(
    found: ExportedPlan, target: str, platform: Platform, full: ComparedSchedule | None
) -> Export:
    if found.plan is None and found.time_ran_out:
        raise DeadlineError(f"no plan of {target} was found in time; allow more of it")
    if found.plan is None:
        least, budget = found.minimum_memory_bytes, native.format_bytes(platform.memory_bytes or 0)
        enough = "" if least is None else f"; {least} bytes are enough"
        raise InfeasibleError(f"{target} can express no plan within {budget}{enough}", least)
    return Export(text=found.text, exported=found.plan, usual=found.usual, full=full)
