"""`StowageCallback` for transformers' Trainer, and for what builds on it, as TRL's trainers do."""

from __future__ import annotations

import logging
from typing import Any

import transformers
from torch import nn

import stowage
from stowage.integrations.first_step import FirstStep
from stowage.torch import Report

_log = logging.getLogger("stowage")


class StowageCallback(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Fits the trainer's model at its first step, and takes the plan out when training ends.

    The first batch is the sample, so later ones are best no larger. The trainer's own checkpointing
    is turned off, with a line on standard error: the plan says what is recomputed.

    Args:
        strict: raises where no schedule can be found; else warns, and the model trains as it is.
        arguments: of `stowage.fit`, as `memory="80%"`; its sample, loss and optimizer are the
            trainer's.

    Attributes:
        report: what became of the model, as by `stowage.report`; None until training has ended.
    """

    def __init__(self, *, strict: bool = True, **arguments: Any) -> None:
        self._strict = strict
        self._arguments = arguments
        self._first_step: FirstStep | None = None
        self.report: Report | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """The model is wrapped or sharded by now."""
        model = more["model"]
        if turn_off_checkpointing(model):
            _log.warning(
                "stowage: gradient_checkpointing is turned off: the plan says what is recomputed"
            )
        # accelerate has wrapped it.
        optimizer = getattr(more.get("optimizer"), "optimizer", more.get("optimizer"))
        arguments = {"optimizer": optimizer, **self._arguments}
        arguments.setdefault("verbose", bool(state.is_world_process_zero) and not args.disable_tqdm)
        self._first_step = FirstStep(model, strict=self._strict, **arguments)

    def on_step_end(self, *_: Any, **more: Any) -> None:
        if self._first_step is not None:
            self._first_step.check()

    def on_train_end(self, *_: Any, **more: Any) -> None:
        if self._first_step is not None:
            if self._first_step.fitted is not None:
                self.report = stowage.report(more["model"])
            self._first_step.remove()
            self._first_step = None


def turn_off_checkpointing(model: nn.Module) -> bool:
    """Whether the model's own checkpointing was on."""
    found = False
    for module in model.modules():
        if vars(module).get("gradient_checkpointing") is True:
            module.gradient_checkpointing = False  # type: ignore[assignment, unused-ignore]
            found = True
    return found
