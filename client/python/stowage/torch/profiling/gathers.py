"""What the layers of a sharded model take while they are gathered around their calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from stowage.model import SaveOption
from stowage.torch.distributed.sharding import (
    gathered,
    gathered_ahead,
    is_fully_sharded,
    is_gathered,
    part_of,
)
from stowage.torch.layers.stage import Stage
from stowage.torch.profiling.overheads import Overheads


@dataclass(slots=True)
class _Sizes:
    """Of a stage, in bytes."""

    gathered: int = 0  # its parameters around a call
    gradients: int = 0  # before they are reduced
    stays: bool = False  # its parameters stay gathered until its backward


class Gathers:
    """What `fully_shard` does around the stages' calls; nothing where no stage is sharded.

    Args:
        model: that the stages are of.
        stages: the model's.
    """

    def __init__(self, model: nn.Module, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self.is_used = any(is_fully_sharded(module) for module in model.modules())
        self._sizes = [_Sizes() for _ in stages]
        # Gradients of what is sharded around the layers are there until the end of a backward.
        self.outside_gradients = 0
        self._modules = [stage.modules[0] for stage in stages]
        # By stage: the modules that are gathered ahead in its forward and backward, where said so.
        self._ahead = [gathered_ahead(module) for module in self._modules]
        self._around = [
            module
            for module in model.modules()
            if is_fully_sharded(module) and not any(module in stage.modules for stage in stages)
        ]

    def begin(self, number: int) -> None:
        """Before the stage is measured, where the model calls it."""
        if not self.is_used:
            return
        stage = self._stages[number - 1]
        sizes, parameters = self._sizes[number - 1], list(stage.parts.parameters())
        sizes.gradients = _bytes(p for p in parameters if p.requires_grad)
        if stage.is_sharded:
            sizes.gathered = _bytes(parameters)
        if number > 1 and self._stages[number - 2].is_sharded:
            before = self._stages[number - 2]
            self._sizes[number - 2].stays = all(map(is_gathered, before.modules))

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """For a backward of what is before the layers, after that of what follows them."""
        for module in self._around:
            module.unshard()  # type: ignore[operator, unused-ignore]
        whole = [parameter for module in self._around for parameter in gathered(module)]
        self.outside_gradients = _bytes(p for p in whole if p.requires_grad)
        yield
        for parameter in whole:
            parameter.grad = None
        for module in self._around:
            module.reshard()  # type: ignore[operator, unused-ignore]

    @property
    def first(self) -> int:
        """Of the first stage, while it runs."""
        return self._sizes[0].gathered

    @property
    def staying(self) -> int:
        """What stays gathered from a forward to the backward."""
        return sum(sizes.gathered for sizes in self._sizes if sizes.stays)

    def added_to(self, number: int, overheads: Overheads) -> Overheads:
        """With what is gathered and reduced around the stage's forward and backward."""
        forward, backward = self.around(number)
        return replace(
            overheads,
            checkpoint=overheads.checkpoint + forward,
            save=overheads.save + forward,
            backward=overheads.backward + backward,
            replay=overheads.replay + forward,
        )

    def added_to_options(
        self, options: Sequence[Sequence[SaveOption]]
    ) -> list[tuple[SaveOption, ...]]:
        """The same of options to save the stages."""
        added = []
        for number, of_stage in enumerate(options, 1):
            forward, backward = self.around(number)
            added.append(
                tuple(
                    replace(
                        option,
                        save_overhead_bytes=(option.save_overhead_bytes or 0) + forward,
                        backward_overhead_bytes=option.backward_overhead_bytes + backward,
                    )
                    for option in of_stage
                )
            )
        return added

    def around(self, number: int) -> tuple[int, int]:
        """Bytes that are gathered and reduced around the stage's forward and backward.

        As much as there may be at once: the result of a gathering beside the parameters that it is
        copied to, the neighbour that is gathered ahead, and gradients while they are reduced, of
        which the last stage's are held, too.
        """
        if not self._stages[number - 1].is_sharded:
            return 0, 0
        own = self._sizes[number - 1]
        before = self._sizes[number - 2].gathered if number > 1 else 0
        after = self._sizes[number] if number < len(self._sizes) else _Sizes()
        of_forward, of_backward = self._ahead[number - 1]
        gathered = {id(m): s.gathered for s, m in zip(self._sizes, self._modules, strict=True)}
        ahead = sum(gathered.get(id(module), 0) for module in of_forward)
        behind = max(before, sum(gathered.get(id(module), 0) for module in of_backward))
        # A replay runs beside what the backward gathers ahead.
        forward = max(2 * own.gathered, own.gathered + after.gradients) + max(before, ahead, behind)
        backward = 2 * behind + max(own.gathered, own.gradients) + after.gradients
        return forward, backward


@contextlib.contextmanager
def made_gradients(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Drops gradients that a backward inside makes of parameters that had none."""
    without = [each for each in tensors if isinstance(each, nn.Parameter) and each.grad is None]
    try:
        yield
    finally:
        for parameter in without:
            parameter.grad = None


def _bytes(parameters: Iterable[Tensor]) -> int:
    """Of what this process has of them, as of those that are gathered."""
    return sum(part_of(parameter).nbytes for parameter in parameters)
