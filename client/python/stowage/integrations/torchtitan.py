"""`StowageAC`, an activation checkpointing policy for torchtitan's Trainer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torchtitan.distributed.activation_checkpoint import FullAC

from stowage.integrations.first_step import FirstStep


class StowageAC(FullAC):  # type: ignore[misc, unused-ignore]
    """Fits the model at its first training step, in place of checkpointing its blocks.

    The first batch is the sample. The trainer's loss runs outside of the model, and is no part of
    what is measured: leave room for it. CUDA graphs of the step must be off.

    Attributes:
        first_step: what becomes of the model; None until the policy is applied.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(FullAC.Config):  # type: ignore[misc, unused-ignore]
        """Of the trainer, as `activation_checkpoint`."""

        memory: str | None = None
        """Of the device, for all of the job, as in `stowage.fit`."""
        activations: str | None = None
        """In place of `memory`, that of activations alone."""
        strict: bool = True
        """Raises where no schedule can be found; else warns, and the model trains as it is."""
        arguments: dict[str, Any] = field(default_factory=dict)
        """Further ones of `stowage.fit`."""

    def __init__(self, config: StowageAC.Config, dump_folder: str = "") -> None:
        super().__init__(config, dump_folder=dump_folder)
        self.first_step: FirstStep | None = None

    def apply(self, model: nn.Module) -> None:
        """Of the trainer: the model is tensor parallel by now, and not sharded yet."""
        config = self.config
        self.first_step = FirstStep(
            model,
            strict=config.strict,
            before_all_hooks=True,
            memory=config.memory,
            activations=config.activations,
            **config.arguments,
        )
