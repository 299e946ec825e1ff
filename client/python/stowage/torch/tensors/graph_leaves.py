"""Which parameters autograd's graph leads to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor


def leaves_of(outputs: Iterable[Tensor]) -> list[Tensor]:
    """The tensors whose ``.grad`` a backward from `outputs` would add to, each once."""
    todo: list[Any] = [output.grad_fn for output in outputs if output.grad_fn is not None]
    seen: set[Any] = set(todo)
    leaves: dict[int, Tensor] = {}
    while todo:
        node = todo.pop()
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor) and leaf.is_leaf:
            leaves[id(leaf)] = leaf
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)
    return list(leaves.values())
