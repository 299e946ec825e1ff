"""Switches of other libraries that stand in a plan's way."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from torch import nn

# What says of a module that it checkpoints its parts, or that it is itself checkpointed.
_CHECKPOINTING = ("gradient_checkpointing", "grad_checkpointing")
_LAYER_DROP = ("layerdrop", "encoder_layerdrop", "decoder_layerdrop")


class Caches:
    """transformers' caches of keys and values, which each run extends: off while a model is fitted.

    `generate` has a setting of its own.
    """

    def __init__(self, model: nn.Module) -> None:
        self._configs = [c for c in configs_of(model) if getattr(c, "use_cache", False)]
        for config in self._configs:
            config.use_cache = False

    def note(self) -> str:
        """For people; "": none was on."""
        return "config.use_cache is False until stowage.unfit(model)" if self._configs else ""

    def put_back(self) -> None:
        for config in self._configs:
            config.use_cache = True


def skips_layers(model: nn.Module) -> bool:
    """Whether a step in training skips layers at random, as by transformers' LayerDrop."""
    return bool(_layer_drops(model))


@contextlib.contextmanager
def without_skipping(model: nn.Module) -> Iterator[None]:
    """Steps inside run all layers."""
    was = _layer_drops(model)
    for owner, name, _ in was:
        owner[name] = 0.0
    try:
        yield
    finally:
        for owner, name, probability in was:
            owner[name] = probability


def _layer_drops(model: nn.Module) -> list[tuple[dict[str, Any], str, float]]:
    if not model.training:
        return []
    owners = [vars(thing) for thing in (*model.modules(), *configs_of(model))]
    found = [(owner, name, owner.get(name)) for owner in owners for name in _LAYER_DROP]
    return [
        (owner, name, probability)
        for owner, name, probability in found
        if isinstance(probability, (int, float)) and probability > 0
    ]


def configs_of(model: nn.Module) -> Iterator[Any]:
    """transformers' configs of the model and its parts, each once."""
    seen: set[int] = set()
    for module in model.modules():
        config = vars(module).get("config")
        if hasattr(config, "__dict__") and id(config) not in seen:
            seen.add(id(config))
            yield config


def checkpoints_itself(module: nn.Module) -> bool:
    """Whether the module's own checkpointing is on, as far as a switch says so."""
    return module.training and any(vars(module).get(name) is True for name in _CHECKPOINTING)


def warn_of_checkpointing(name: str) -> None:
    warnings.warn(
        f"stowage: {name or 'the model'} checkpoints itself, so that it is recomputed beside what "
        "the plan recomputes, which costs time and saves nothing: turn that off, as by "
        "model.gradient_checkpointing_disable(), gradient_checkpointing=False among a trainer's "
        "arguments, or model.set_grad_checkpointing(False)",
        stacklevel=2,
    )


def warn_of_no_plan(error: Exception) -> None:
    warnings.warn(f"stowage: the model trains as it is, without a plan: {error}", stacklevel=3)
