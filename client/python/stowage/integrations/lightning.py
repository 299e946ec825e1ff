"""`StowageCallback` for Lightning's Trainer."""

from __future__ import annotations

from typing import Any

import lightning.pytorch
from torch import nn

import stowage
from stowage.errors import StowageError
from stowage.integrations.first_step import FirstStep
from stowage.torch import Report


class StowageCallback(lightning.pytorch.Callback):  # type: ignore[misc, unused-ignore]
    """Fits a module at the first training step, and takes the plan out when training ends.

    The first batch is the sample, so later ones are best no larger.

    Args:
        module: the name of the part of the LightningModule that `training_step` calls, and that
            has the layers; "": it calls the LightningModule itself, as `self(batch)`.
        strict: raises where no schedule can be found; else warns, and the model trains as it is.
        arguments: of `stowage.fit`, as `memory="80%"`; its sample and optimizer are the trainer's.

    Attributes:
        report: what became of the model, as by `stowage.report`; None until training has ended.
    """

    def __init__(self, module: str = "model", *, strict: bool = True, **arguments: Any) -> None:
        self._name = module
        self._strict = strict
        self._arguments = arguments
        self._first_step: FirstStep | None = None
        self._module: nn.Module | None = None
        self.report: Report | None = None

    def on_train_start(
        self, trainer: lightning.pytorch.Trainer, pl_module: lightning.pytorch.LightningModule
    ) -> None:
        """The model is wrapped or sharded by now."""
        try:
            self._module = pl_module.get_submodule(self._name)
        except AttributeError as error:
            raise StowageError(
                f"{type(pl_module).__name__} has no module {self._name!r}: pass the name of what "
                "training_step calls, as StowageCallback(module='net', …)"
            ) from error
        optimizers = trainer.optimizers
        arguments: dict[str, Any] = {
            "optimizer": optimizers[0] if len(optimizers) == 1 else None,
            "verbose": trainer.is_global_zero,
            **self._arguments,
        }
        self._first_step = FirstStep(self._module, strict=self._strict, **arguments)

    def on_train_batch_end(self, *_: Any) -> None:
        if self._first_step is not None:
            self._first_step.check()

    def on_exception(self, *_: Any) -> None:
        self.on_train_end()

    def on_train_end(self, *_: Any) -> None:
        if self._first_step is not None:
            if self._first_step.fitted is not None and self._module is not None:
                self.report = stowage.report(self._module)
            self._first_step.remove()
            self._first_step = self._module = None
