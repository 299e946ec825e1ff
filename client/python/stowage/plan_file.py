"""The last answer that a job trained with, saved in a directory so that a restarted job starts at
once: the rules of client/lib/plan_file.h.

The format is the JSON of plan.proto's SavedPlan, not its bytes, which are what other programs of
Stowage write: a job that restarts where the extra `client` is missing must still find its plan.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import secrets
import stat
from dataclasses import dataclass, replace
from typing import Any

from stowage import _core
from stowage.answer import Answer
from stowage.errors import StowageError
from stowage.local import solvers
from stowage.model import Chain, OperationKind, SolveOptions, Stage
from stowage.request import SavedPlan, SolveRequest

# By how much the overhead (Prediction.overhead) may exceed that of the saved plan: times that are
# measured again differ by a tenth and more, stage by stage, and a link's speed all at once.
_MAX_MORE_OVERHEAD = 0.01
_MAX_MORE_OVERHEAD_WITH_COPIES = 0.05
_MAX_MORE_OVERHEAD_RELATIVE = 0.25
_MAX_LETTERS = 80
_DEFAULT_TIME_PRECISION = 0.01


class PlanError(StowageError):
    """A plan cannot be read or written, or does not serve the request. The message has the path."""


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan that is valid for a request.

    Attributes:
        answer: Prediction and explanation are for the request's chain.
        solved_locally: Without a server: perhaps with less memory and time.
    """

    answer: Answer
    solved_locally: bool


def file_name(request: SolveRequest) -> str:
    """Named after the chain, its length and the budget: "resnet101-38-1024498560.plan.json". Only
    tells a directory's plans apart; `load` compares the requests themselves.
    """
    assert request.chain is not None
    assert request.platform is not None
    name = re.sub("[^A-Za-z0-9_]", "-", request.chain.name[:_MAX_LETTERS]) or "chain"
    return f"{name}-{len(request.chain.stages)}-{request.platform.memory_bytes}.plan.json"


def save(
    directory: str | os.PathLike[str], request: SolveRequest, answer: Answer, solved_locally: bool
) -> None:
    """Saves the plan for `request`; creates the directory. Replaces the file atomically: a reader
    finds the old plan or the new one, even after a crash. Of concurrent calls the last wins.

    Raises:
        PlanError: It cannot be written.
    """
    plan = SavedPlan(
        request=request,
        response=answer,
        solved_locally=solved_locally,
        solver_version=_version_of(answer),
    )
    path = pathlib.Path(directory) / file_name(request)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, plan.to_json().encode())
    except StowageError as error:  # of provenance, which nobody else reads
        raise PlanError(f"cannot write {path}: {error}") from error
    except (OSError, ValueError) as error:
        raise PlanError(f"cannot write {_named(path, error)}") from error


def load(directory: str | os.PathLike[str], request: SolveRequest) -> LoadedPlan | None:
    """The saved plan, if it serves `request`: the same solver and version, options, budget and
    sizes, and a link where there is one now. Times and the link's speed may differ; the schedule is
    simulated on the request's own chain, must fit, and its overhead may be a quarter and 0.01 more
    than it was, or 0.05 where it copies. None where there is no file.

    Raises:
        PlanError: The file cannot be read, or does not serve the request.
    """
    path = pathlib.Path(directory) / file_name(request)
    try:
        plan = SavedPlan.from_json(_read(path))
    except FileNotFoundError:
        return None
    except StowageError as error:
        raise PlanError(f"{path} is not a saved plan: {error}") from error
    except (OSError, ValueError) as error:
        raise PlanError(f"cannot read {_named(path, error)}") from error
    return _checked(path, plan, request)


def _checked(path: pathlib.Path, plan: SavedPlan, request: SolveRequest) -> LoadedPlan:
    saved, useless = plan.response, f"{path} is of no use: "
    if saved.schedule is None or saved.prediction is None or saved.origin is None:
        raise PlanError(useless + "it is not valid")
    try:
        difference = _core.plan_difference(
            _plain(plan.request).to_dict(), _plain(request).to_dict(), _earlier(saved)
        )
    except StowageError as error:
        raise PlanError(useless + f"it is not valid: {error}") from error
    if difference:
        raise PlanError(useless + f"it was made for {difference}")
    if plan.solver_version != _version_of(saved):
        raise PlanError(useless + "it is by another version of its solver")
    # With other times an optimal schedule need not be optimal, and the rounding loss is unknown.
    exactly = _plain(plan.request) == _plain(request)
    answer = _reuse(request, saved, exactly)
    if answer is None or answer.prediction is None:
        raise PlanError(useless + "its schedule does not fit")
    if answer.prediction.overhead > _max_overhead(saved):
        raise PlanError(useless + "with these times its schedule loses more than it did")
    answer = replace(answer, origin=saved.origin, chain=request.chain)
    return LoadedPlan(
        answer if exactly else replace(answer, rounding_loss=None), plan.solved_locally
    )


def _max_overhead(saved: Answer) -> float:
    assert saved.schedule is not None
    assert saved.prediction is not None
    copies = any(operation.kind is OperationKind.OFFLOAD for operation in saved.schedule.operations)
    more = _MAX_MORE_OVERHEAD_WITH_COPIES if copies else _MAX_MORE_OVERHEAD
    return (1 + _MAX_MORE_OVERHEAD_RELATIVE) * saved.prediction.overhead + more


def _earlier(saved: Answer) -> dict[str, Any]:
    """As the core reads it."""
    assert saved.origin is not None
    assert saved.schedule is not None
    earlier: dict[str, Any] = {
        "outcome": saved.outcome.name,
        "limit": saved.limit.name,
        "schedule": saved.schedule.to_dict(),
        "solver": saved.origin.solver,
        "notes": list(saved.explanation.notes) if saved.explanation is not None else [],
    }
    if saved.minimum_memory_bytes is not None:
        earlier["minimum_memory_bytes"] = saved.minimum_memory_bytes
    if saved.rounding_loss is not None:
        earlier["rounding_loss"] = saved.rounding_loss.to_dict()
    return earlier


def _reuse(request: SolveRequest, saved: Answer, exactly: bool) -> Answer | None:
    """The saved schedule, simulated on the request's own chain."""
    options = request.options or SolveOptions()
    if not exactly:
        options = replace(options, report_rounding_loss=False, tight_bound=False)
    found = _core.reuse(replace(request, options=options).to_dict(), _earlier(saved), exactly)
    return None if found is None else Answer.from_dict(found)


def _plain(request: SolveRequest) -> SolveRequest:
    """With what unset fields stand for, and without what no solver reads."""
    chain, options = request.chain or Chain(), request.options or SolveOptions()
    plain = replace(
        chain,
        stages=tuple(_plain_stage(stage) for stage in chain.stages),
        loss=_plain_stage(chain.loss or Stage()),
        provenance=None,
        graph_entry_seconds=chain.graph_entry_seconds or 0.0,
    )
    precision = options.time_precision
    plain_options = replace(
        options,
        time_precision=_DEFAULT_TIME_PRECISION if precision is None else precision,
        use_cache=options.use_cache is not False,
    )
    return replace(request, chain=plain, options=plain_options)


def _plain_stage(stage: Stage) -> Stage:
    return replace(
        stage, fusion_group=stage.fusion_group or "", control_flow=bool(stage.control_flow)
    )


def _version_of(answer: Answer) -> int:
    """0 for a solver that this package does not have."""
    name = answer.origin.solver if answer.origin is not None else ""
    return next((solver.version for solver in solvers() if solver.name == name), 0)


def _named(path: pathlib.Path, error: OSError | ValueError) -> str:
    """The path and what is wrong with it. ValueError: it has a NUL, or is no Unicode."""
    return f"{str(path)!r}: {getattr(error, 'strerror', None) or error}"


def _read(path: pathlib.Path) -> bytes:
    def at_once(name: str, flags: int) -> int:  # opening a pipe would wait for a writer
        return os.open(name, flags | os.O_NONBLOCK)

    with open(path, "rb", opener=at_once) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError("it is not a regular file")
        return stream.read()


def write_durably(path: pathlib.Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    # With the rights that the umask leaves; those of tempfile are the owner's alone.
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())  # before the rename, which must not be durable before it
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
