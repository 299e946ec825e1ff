"""Where in a model a step is: which module's forward or backward runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks_of_modules

from stowage.torch.structure import tensors_of


class Places:
    """While it is entered, names the module that runs; of a backward, the one reached last."""

    def __init__(self, model: nn.Module) -> None:
        self._names = {
            module: name or type(module).__name__ for name, module in model.named_modules()
        }
        self._running: list[str] = []
        self._of_nodes: dict[Any, str] = {}  # by the node that a module's output came from
        self._reached = ""
        self._hooks: list[Any] = []

    def __enter__(self) -> Places:
        self._hooks = [
            hooks_of_modules.register_module_forward_pre_hook(self._begin),
            hooks_of_modules.register_module_forward_hook(self._end),
        ]
        return self

    def __exit__(self, *_: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        self._of_nodes.clear()

    def name_of(self, operator: str) -> str:
        node = torch._C._current_autograd_node()
        if node is not None:
            self._reached = self._of_nodes.get(node, self._reached)
            return f"{self._reached}, {node.name()}, {operator}" if self._reached else node.name()
        return f"{self._running[-1]}, {operator}" if self._running else operator

    def _begin(self, module: nn.Module, _: Any) -> None:
        self._running.append(self._names.get(module, type(module).__name__))

    def _end(self, module: nn.Module, _: Any, output: Any) -> None:
        name = self._running.pop()
        for tensor in tensors_of(output):
            if tensor.grad_fn is not None:
                self._of_nodes.setdefault(tensor.grad_fn, name)
