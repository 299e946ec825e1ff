"""Where in a model a step is: which module's forward or backward runs."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks_of_modules

from stowage.torch.layers.structure import tensors_of

_KEY = "stowage.place"


class Places:
    """While it is entered, names the module that runs; of a backward, the one reached last."""

    def __init__(self, model: nn.Module) -> None:
        self._names = {part: name or type(part).__name__ for name, part in model.named_modules()}
        self._running: list[str] = []
        self._reached = ""
        self._hooks: list[Any] = []
        self._thread = threading.get_ident()  # hooks of all modules run in all threads

    def __enter__(self) -> Places:
        self._hooks = [
            hooks_of_modules.register_module_forward_pre_hook(self._begin),
            hooks_of_modules.register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(self, *_: Any) -> None:
        for hook in self._hooks:
            hook.remove()

    @property
    def module(self) -> str:
        """That runs; empty: none does."""
        return self._running[-1] if self._running else ""

    def name_of(self, operator: str) -> str:
        node: Any = torch._C._current_autograd_node()
        if node is not None:
            self._reached = node.metadata.get(_KEY, self._reached)
            return f"{self._reached}, {node.name()}, {operator}" if self._reached else node.name()
        return f"{self.module}, {operator}" if self._running else operator

    def _begin(self, module: nn.Module, _: Any) -> None:
        if threading.get_ident() == self._thread:
            self._running.append(self._names.get(module, type(module).__name__))

    def _end(self, module: nn.Module, _: Any, output: Any) -> None:
        if threading.get_ident() != self._thread or not self._running:
            return
        name = self._running.pop()
        for tensor in tensors_of(output):
            node: Any = tensor.grad_fn
            if node is not None:
                # Not kept here: a node that is kept keeps all that its backward needs.
                node.metadata.setdefault(_KEY, name)
