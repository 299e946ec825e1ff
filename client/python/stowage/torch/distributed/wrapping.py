"""What may stand around a model: DistributedDataParallel, and torch.compile of all of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself. Its steps are not reduced as a wrapper's, and not compiled."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module
        elif type(model).__name__ == "OptimizedModule":
            model = model._orig_mod  # type: ignore[assignment, unused-ignore]
        else:
            return model


def is_compiled_whole(model: nn.Module) -> bool:
    """Whether torch.compile traces all of the model, as it was passed."""
    if "_compiled_call_impl" in vars(model):  # of Module.compile()
        return True
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return is_compiled_whole(model.module)
    return type(model).__name__ == "OptimizedModule"


@contextlib.contextmanager
def eagerly(model: nn.Module) -> Iterator[None]:
    """Calls of the model inside are not those that Module.compile() has made."""
    compiled = vars(model).pop("_compiled_call_impl", None)
    try:
        yield
    finally:
        if compiled is not None:
            vars(model)["_compiled_call_impl"] = compiled
