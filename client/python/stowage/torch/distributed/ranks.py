"""What the processes of a sharded job agree on, so that all of them run one plan."""

from __future__ import annotations

import contextlib
import math
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch

from stowage.errors import StowageError

_T = TypeVar("_T")


class Ranks:
    """The processes that share a plan: those of a mesh, or this one alone.

    All call the same methods in the same order, and wait for each other in each.

    Args:
        groups: process groups of the mesh, by dimension; none where this process is alone.
        talk: steps of the model talk to the other processes, too, so that one that fails in a step
            cannot say so to those that wait for it there.
        in_layers: the layers talk to other processes, so that all must run the same layers again.
    """

    def __init__(
        self, groups: Sequence[Any] = (), *, talk: bool = True, in_layers: bool = False
    ) -> None:
        self.in_layers = in_layers
        self._groups = [group for group in groups if group.size() > 1]
        self._talk = talk

    @property
    def are_several(self) -> bool:
        return bool(self._groups)

    @property
    def count(self) -> int:
        return math.prod(group.size() for group in self._groups)

    @property
    def is_first(self) -> bool:
        return all(group.rank() == 0 for group in self._groups)

    def all_of(self, value: _T) -> list[_T]:
        """What each process passes, in the order of the mesh."""
        values = [value]
        for group in reversed(self._groups):
            gathered: list[Any] = [None] * group.size()
            torch.distributed.all_gather_object(gathered, values, group=group)
            values = [entry for of_process in gathered for entry in of_process]
        return values

    def any_of(self, is_so: bool) -> bool:
        return any(self.all_of(is_so)) if self._groups else is_so

    def together(self, run: Callable[[], _T]) -> list[_T]:
        """What `run` returns in each process. Where it raises in one, this raises in all."""
        if not self._groups:
            return [run()]
        own: Exception | None = None
        result: Any = None
        try:
            result = run()
        except Exception as error:
            own = error
        outcomes = self.all_of((result, None if own is None else _portable(own)))
        failed = own or next((of_other for _, of_other in outcomes if of_other is not None), None)
        if failed is not None:
            raise failed
        return [outcome for outcome, _ in outcomes]

    def first(self, run: Callable[[], _T]) -> _T:
        """What `run` returns in the first process, where it runs. Raises in all where it raises."""
        if not self._groups:
            return run()
        own: Exception | None = None
        result: Any = None
        if self.is_first:
            try:
                result = run()
            except Exception as error:
                own = error
        result, failed = self.all_of((result, None if own is None else _portable(own)))[0]
        if failed is not None:
            raise own or failed
        return result  # type: ignore[no-any-return]

    def each(self, run: Callable[[], _T]) -> _T:
        """What `run` returns in this process. Where it raises in one, this raises in all."""
        results: list[_T] = []
        self.together(lambda: results.append(run()))
        return results[0]

    def steps(self, run: Callable[[], _T]) -> _T:
        """What `run`, which runs steps of the model, returns in this process.

        Where it raises in one, this raises in all, unless steps talk: then `telling` says so.
        """
        return run() if self._talk else self.each(run)

    @property
    def of_steps(self) -> Ranks:
        """Those that run the same steps, one by one."""
        return self if self._talk else Ranks()

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Where what runs inside fails in one process, the others raise with its message.

        They wait for it where they are: until its end, or until the timeout of their group.
        """
        if not self._groups:
            yield
            return
        key = self.all_of(f"stowage/failed/{uuid.uuid4().hex}")[0]
        try:
            yield
        except Exception as error:
            told = _tell(key, error)
            if told:
                raise StowageError(told) from error
            raise


def _tell(key: str, error: Exception) -> str:
    """What another process has said before, where `error` may be of waiting for it; "": nothing."""
    own = f"process {torch.distributed.get_rank()} has failed: {error}"
    with contextlib.suppress(Exception):  # the process that has the store may be gone
        store = torch.distributed.distributed_c10d._get_default_store()
        first = store.compare_set(key, "", own).decode()
        waited = type(error) in (RuntimeError, torch.distributed.DistBackendError)
        return str(first) if waited and first != own else ""
    return ""


def _portable(error: Exception) -> Exception:
    """The error, or one with its message where it cannot be sent to other processes."""
    with contextlib.suppress(Exception):
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    return StowageError(str(error))
