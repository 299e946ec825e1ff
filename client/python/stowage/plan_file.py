"""The last answer that a job trained with, saved in a directory so that a restarted job starts at
once: the rules of client/lib/saved_plan/plan_file.h.

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

from stowage import native
from stowage.answer import Answer
from stowage.errors import FailedPreconditionError, StowageError
from stowage.local import solvers
from stowage.request import SavedPlan, SolveRequest

_MAX_LETTERS = 80


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
    """The saved plan, if it serves `request` by the rules of client/lib/saved_plan/plan_reuse.h:
    the same solver and version, options, budget and sizes, while times may differ as long as the
    schedule loses little more than it did. None where there is no file.

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
        question = {
            **request.to_dict(),
            "made_for": plan.request.to_dict(),
            "answer": saved.to_dict(),
            "solver_version": plan.solver_version,
        }
        answer = Answer.from_dict(native.call("reuse", question))
    except FailedPreconditionError as error:
        raise PlanError(useless + f"it {error}") from error
    except StowageError as error:
        raise PlanError(useless + f"it is not valid: {error}") from error
    answer = replace(answer, origin=saved.origin, chain=request.chain)
    return LoadedPlan(answer, plan.solved_locally)


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
