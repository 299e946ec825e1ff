"""Runs a layer that is replayed alone, right before its own backward, or kept in part.

As `torch.utils.checkpoint` does, in less time, and with what the executor's replays find and
compare.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from stowage.torch.layers.discover import refuse_caches
from stowage.torch.layers.stage import Call, Stage
from stowage.torch.layers.structure import take_tensors
from stowage.torch.tensors.kept_results import Way
from stowage.torch.tensors.storages import Held, Saved
from stowage.torch.tensors.values import Value

_NO_BACKWARD = -1  # torch's number of a graph task where none runs


def run_alone(stage: Stage, way: Way | None, args: Any, kwargs: Any) -> Any:
    """The layer's output. Its backward replays the layer, or reruns what `way` does not keep."""
    refuse_caches(stage.name, args, kwargs)
    return CallAlone(stage).run(way, args, kwargs)


class CallAlone:
    """One call of a layer: the first run, and a replay in each backward that asks for handles.

    The handles hold it, and it holds the arguments.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._call: Call | None = None  # None: it has not run yet
        self._has_part = False
        self._part: Value | None = None  # what a way keeps, until a backward takes it
        self._saved: list[Saved] = []  # what the backward under way has yet to read, by handle
        self._backward = _NO_BACKWARD

    def run(self, way: Way | None, args: Any, kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        template = take_tensors((args, kwargs), tensors)
        first = self._stage.run_first(
            self, 0, template, tensors, (), args, kwargs, saves=way is not None, way=way
        )
        self._call = first.call
        self._has_part = way is not None
        if way is not None:
            self._part = Value.of([], first.saved, first.kept)
        return first.returned

    def take(self, stage: int, number: int) -> Tensor:
        """The saved tensor that a handle of the caller's graph stands for; once in a backward."""
        backward = torch._C._current_graph_task_id()
        if backward != self._backward or backward == _NO_BACKWARD:
            self.run_again()
            self._backward = backward
        saved, self._saved[number] = self._saved[number], None
        if backward == _NO_BACKWARD:  # someone looks at the graph
            self._saved = []
        if saved is None:
            self._refuse("reads a saved tensor a second time", "read ctx.saved_tensors once")
        assert isinstance(saved, Held)
        return saved.get()

    def forget(self) -> None:
        """Lets go of what it has saved."""
        self._saved = []

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def run_again(self) -> None:
        """Saves all that a backward reads. Takes what a way has kept for it."""
        if self._call is None:
            self._refuse(
                "runs inside its forward",
                "have the layer return what that needs, or leave it out, with layers=",
            )
        if self._has_part:
            part, self._part = self._part, None
            if part is None:
                self._refuse(
                    "runs a second time, and what the layer had kept for it is gone",
                    "call stowage.unfit(model) to use retain_graph",
                )
            self._saved = self._stage.rerun(self._call, (), part)
        else:
            again = self._stage.run_again(self._call, (), saves=True, stops=True)
            self._saved = again.saved or []

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise RuntimeError(f"the backward of {self._stage.name} {what}: {remedy}")
