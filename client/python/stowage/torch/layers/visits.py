"""Records which modules a model calls for a sample, with what, and how much autograd saves in each.

The sample runs once, with hooks on the modules and with a graph that keeps nothing for a backward.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import NotAChainError
from stowage.torch.distributed.sharding import casts_output, is_fully_sharded
from stowage.torch.layers.structure import tensors_of
from stowage.torch.tensors.storages import (
    is_alias,
    parts_of,
    reference_to,
    storage_keys,
    version_of,
)


@dataclass(slots=True, eq=False)
class Visit:
    """One call of one module."""

    module: nn.Module
    name: str
    # The slots of its arguments' tensors that are outputs of the sibling before it.
    links: tuple[int, ...] = ()
    # The other tensors, by id; kept alive by `Trace`.
    others: frozenset[int] = frozenset()
    # Those of them that earlier layers may have made: no leaf, and with a gradient.
    made: frozenset[int] = frozenset()
    value_needs_gradient: bool = False  # whether what `links` names does
    takes_parents_input: bool = False
    writes_input: bool = False  # in place; or a list of tensors among its arguments
    input_changes: bool = False  # in place, once it has returned
    may_pass_input: bool = False  # as its output, or as that's memory
    is_one_to_one: bool = False  # one tensor as its only argument, one as its output
    parent_returns_it: bool = False
    has_made_weights: bool = False  # a hook has computed what it reads, outside of it
    bytes: int = 0  # of its output, and of all outputs inside
    saved_bytes: int = 0  # of what autograd saves inside, beside parameters
    inputs: dict[int, int] = field(default_factory=dict)  # bytes, by storage: its arguments'
    elements: int = 0  # of the tensors among its arguments
    has_gradients: bool = False  # they were on when it was called
    calls: int = 1  # of its module
    children: list[Visit] = field(default_factory=list)


class Trace:
    """Hooks that record the calls of a model's modules; of some, where `layers` are given."""

    def __init__(self, model: nn.Module, layers: Iterable[nn.Module] | None) -> None:
        self.root = Visit(model, "")
        self.visits = [self.root]  # in the order in which they return
        self.names = {module: name for name, module in model.named_modules()}
        if layers is not None:
            self._watched = {module: self.names.get(module, "?") for module in layers}
        else:
            self._watched = {m: name for m, name in self.names.items() if m is not model}
        self._counts: dict[nn.Module, int] = {}
        self._stack: list[tuple[Visit, list[Tensor], list[int]]] = []
        # By visit: the last child's outputs, and their versions then.
        self._last: dict[int, list[tuple[weakref.ref[Tensor], int]]] = {}
        # By visit: the arguments of its children, and their versions when these had returned.
        self._arguments: dict[int, list[tuple[Visit, weakref.ref[Tensor], int]]] = {}
        self._kept: list[Tensor] = []  # side inputs, so that an id stands for one tensor
        # While one is here, no other storage gets its key.
        self._storages: dict[int, Any] = {}
        self._saved: set[int] = set()

    def __enter__(self) -> Trace:
        self._handles = []
        for module in self._watched:
            # Those of fully_shard hand on other tensors than they get.
            is_sharded = is_fully_sharded(module)
            before = module.register_forward_pre_hook(
                self._before, prepend=is_sharded, with_kwargs=True
            )
            # Before other hooks, which may hand on another output than the module's. Where
            # fully_shard casts that, the layers are found all the same, and refused for that.
            casts = is_sharded and casts_output(module)
            after = module.register_forward_hook(self._after, prepend=not casts, with_kwargs=True)
            self._handles += [before, after]
            if is_sharded and not casts:
                self._handles.append(
                    module.register_forward_pre_hook(self._inside, with_kwargs=True)
                )
        self._saving = torch.autograd.graph.saved_tensors_hooks(self._saves, _never)
        self._saving.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._saving.__exit__(*error)
        for handle in self._handles:
            handle.remove()
        self._look_for_changes(self.root)
        for visit in self.visits:
            visit.calls = self._counts.get(visit.module, 1)
        self._kept.clear()
        self._storages.clear()
        self._arguments.clear()

    def _parent(self) -> Visit:
        return self._stack[-1][0] if self._stack else self.root

    def _sizes_of(self, tensor: Tensor) -> dict[int, int]:
        """Bytes, by storage. Of what is no parameter, or a view of one."""
        root = tensor._base if tensor._is_view() else tensor
        if root is not None and root.is_leaf and root.requires_grad:
            return {}
        sizes = {}
        for part in parts_of(tensor):
            storage = part.untyped_storage()
            key = int(storage._cdata)
            sizes[key] = storage.nbytes()
            self._storages.setdefault(key, reference_to(storage))
        return sizes

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _saves(self, tensor: Tensor) -> None:
        """Drops it: the graph tells what depends on parameters, and no backward is run."""
        for key, size in self._sizes_of(tensor).items():
            if key not in self._saved:
                self._saved.add(key)
                self._parent().saved_bytes += size

    # Hooks of compiled layers run outside of what is compiled.
    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _before(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        visit = Visit(module, self._watched[module])
        if not torch.is_grad_enabled():  # which runs as it is
            self._stack.append((visit, [], []))
            return
        tensors = tensors_of((args, kwargs))
        parent = self._parent()
        last = {
            id(t)
            for r, version in self._last.get(id(parent), ())
            if (t := r()) is not None and version_of(t) == version
        }
        visit.links = tuple(slot for slot, tensor in enumerate(tensors) if id(tensor) in last)
        others = [tensor for tensor in tensors if id(tensor) not in last]
        made = [tensor for tensor in others if tensor.requires_grad and not tensor.is_leaf]
        visit.others = frozenset(id(tensor) for tensor in others)
        visit.made = frozenset(id(tensor) for tensor in made)
        visit.value_needs_gradient = any(tensors[slot].requires_grad for slot in visit.links)
        # A table, such as that of rotary positions, is not the value where another tensor is.
        if made and not visit.value_needs_gradient:
            visit.links = ()
        self._kept += [tensor for tensor in others if parent.children]
        if self._stack:
            outer = {id(tensor) for tensor in self._stack[-1][1]}
            visit.takes_parents_input = any(id(tensor) in outer for tensor in tensors)
        visit.is_one_to_one = len(args) == 1 and not kwargs and isinstance(args[0], Tensor)
        visit.has_made_weights = len(module._forward_pre_hooks) > 1 and any(
            isinstance(value, Tensor) and value.grad_fn is not None
            for value in vars(module).values()
        )
        visit.elements = sum(tensor.numel() for tensor in tensors)
        for tensor in tensors:
            visit.inputs.update(self._sizes_of(tensor))
        visit.has_gradients = True
        self._counts[module] = self._counts.get(module, 0) + 1
        self._stack.append((visit, tensors, [version_of(tensor) for tensor in tensors]))

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _inside(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """After the hooks that are there, which may hand on something else than the value."""
        visit, tensors, _ = self._stack[-1]
        now = tensors_of((args, kwargs))
        if len(now) != len(tensors) or not all(map(is_alias, now, tensors)):
            visit.links = ()

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _after(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        visit, tensors, versions = self._stack.pop()
        if not visit.has_gradients:
            return
        outputs = tensors_of(output)
        now = tensors if is_fully_sharded(module) else tensors_of((args, kwargs))
        visit.writes_input = list(map(id, now)) != list(map(id, tensors)) or any(
            version_of(tensor) != version for tensor, version in zip(tensors, versions, strict=True)
        )
        # Dropout passes its input in eval().
        visit.may_pass_input = isinstance(module, nn.modules.dropout._DropoutNd) or (
            not storage_keys(tensors).isdisjoint(storage_keys(outputs))
        )
        visit.is_one_to_one = visit.is_one_to_one and isinstance(output, Tensor)
        visit.bytes += sum(tensor.nbytes for tensor in outputs)
        self._look_for_changes(visit)
        inner = {id(t) for r, _ in self._last.pop(id(visit), ()) if (t := r()) is not None}
        if visit.children:
            visit.children[-1].parent_returns_it = any(id(t) in inner for t in outputs)
        parent = self._parent()
        parent.bytes += visit.bytes
        parent.saved_bytes += visit.saved_bytes
        parent.children.append(visit)
        self._last[id(parent)] = [(weakref.ref(tensor), version_of(tensor)) for tensor in outputs]
        self._arguments.setdefault(id(parent), []).extend(
            (visit, weakref.ref(tensor), version_of(tensor)) for tensor in tensors
        )
        self.visits.append(visit)

    def _look_for_changes(self, parent: Visit) -> None:
        """What of its children's arguments it has changed since."""
        for visit, argument, version in self._arguments.pop(id(parent), ()):
            tensor = argument()
            visit.input_changes |= tensor is not None and version_of(tensor) != version


def _never(saved: Any) -> Tensor:
    raise NotAChainError(
        "the model or its loss runs a backward inside its forward, whose values a recomputation "
        "would change: call torch.utils.checkpoint in its other parts, in place of stowage.fit"
    )
