"""The model as it was before the steps that measure it."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from stowage.errors import StowageError
from stowage.torch.distributed.sharding import settle
from stowage.torch.layers.structure import tensors_of
from stowage.torch.measuring.workload import Workload
from stowage.torch.tensors.replay import RandomStates, same_content
from stowage.torch.tensors.storages import version_of

# What PyTorch itself keeps of a module: parameters, buffers, parts, hooks, training mode.
_ATTRIBUTES = vars(nn.Module()).keys()


def refuse_lazy(model: nn.Module) -> None:
    """Raises where a parameter or buffer is made by the first forward, of random numbers."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if is_lazy(tensor):
            raise StowageError(
                f"{name} has no size before the first forward: call the model once, as before an "
                "optimizer is made, and stowage.fit then"
            )


@contextlib.contextmanager
def same_state(model: nn.Module, work: Workload | None = None) -> Iterator[None]:
    """Undoes what steps inside do to all but gradients: parameters and buffers, the modes and parts
    of modules, hooks that are gone, the sample and generators.

    The first time for `work` it learns which parameters steps write. Those alone are copied from
    then on.
    """
    work = work or _STEPS
    state = _State(model, work)
    watched = contextlib.nullcontext() if work.is_known else _CopyOnWrite(state.parameters.values())
    try:
        with watched:
            yield
    except BaseException:
        settle(model, failed=True)
        state.restore()
        raise
    settle(model)
    lost = state.restore()
    if lost:
        raise StowageError(
            f"{lost} was changed by a step, which the first one did not do, and cannot be put "
            "back: load it again, and call stowage.fit where each step does the same"
        )


@contextlib.contextmanager
def unchanged(model: nn.Module, work: Workload | None = None) -> Iterator[None]:
    """Undoes what steps inside do, to gradients as well.

    Inside, every parameter that needs one has a gradient, as in a step after the first, and hooks
    that use gradients once they are there, as optimizers do, are not called.
    """
    work = work or _STEPS
    leaves = {id(tensor): tensor for tensor in (*work.leaves, *work.sample) if tensor.is_leaf}
    parameters = {id(parameter): parameter for parameter in model.parameters()}
    tensors = list({**leaves, **parameters}.values())
    gradients = [(tensor, tensor.grad) for tensor in tensors]
    hooks = _hooks_of(tensors, "_post_accumulate_grad_hooks")
    try:
        for tensor in tensors:
            is_ours = id(tensor) in parameters and tensor.requires_grad
            _refill(getattr(tensor, "_post_accumulate_grad_hooks", None), {})
            tensor.grad = torch.zeros_like(tensor) if is_ours else None
        with same_state(model, work):
            yield
    finally:
        for tensor, gradient in gradients:
            tensor.grad = gradient
        _put_back(hooks, "_post_accumulate_grad_hooks")


# Steps of which nothing but the model is known, which write no parameters.
_STEPS = Workload(lambda: None, torch.mean, torch.device("cpu"), is_known=True)


class _State:
    """What `same_state` puts back."""

    def __init__(self, model: nn.Module, work: Workload) -> None:
        self._work = work
        self._modules = [
            (
                module,
                [(name, _copy(vars(module)[name])) for name in _ATTRIBUTES & vars(module).keys()],
            )
            for module in model.modules()
        ]
        self.parameters = {name: _Kept(p) for name, p in model.named_parameters()}
        written = {id(tensor) for tensor in work.written}
        for kept in self.parameters.values():
            if id(kept.tensor) in written:
                kept.keep_content()
        self._others = [_Kept(tensor) for tensor in (*model.buffers(), *work.sample)]
        for kept in self._others:
            kept.keep_content()
        tensors = [kept.tensor for kept in (*self.parameters.values(), *self._others)]
        self._hooks = _hooks_of(tensors, "_backward_hooks")
        devices = {tensor.device for tensor in tensors if tensor.device.type == "cuda"}
        self._random = RandomStates(tuple(devices))
        self._of_python = random.getstate()
        numpy = sys.modules.get("numpy")  # whose generator matters where somebody has imported it
        self._of_numpy = None if numpy is None else numpy.random.get_state()

    def restore(self) -> str:
        """The name of a parameter that was written without a copy of it; "": there is none."""
        self._random.restore()
        random.setstate(self._of_python)
        if self._of_numpy is not None:
            sys.modules["numpy"].random.set_state(self._of_numpy)
        for module, attributes in self._modules:
            for name, value in attributes:
                now = vars(module).get(name)
                if "hook" in name:
                    value = _with_added(value, now)
                if isinstance(value, (dict, set)) and isinstance(now, type(value)):
                    _refill(now, value)
                else:
                    vars(module)[name] = value
        _put_back(self._hooks, "_backward_hooks")
        written, lost = [], ""
        for name, kept in self.parameters.items():
            if kept.restore():
                written.append(kept.tensor)
                lost = lost or ("" if kept.has_content else name)
        for kept in self._others:
            kept.restore()
        if not self._work.is_known:
            self._work.written, self._work.is_known = written, True
        return lost


class _Kept:
    """A tensor's place in memory, its flags and, where `keep_content` was called, its content."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._alias = tensor.detach()
        self._place = _place(tensor)
        self._version = version_of(tensor)
        self._is_leaf = tensor.is_leaf
        self._requires_grad = tensor.requires_grad
        self._content: Tensor | None = None

    def keep_content(self) -> None:
        """Once: what it is at the first call is what is put back."""
        if self._content is None:
            self._content = self._alias.clone()

    @property
    def has_content(self) -> bool:
        return self._content is not None

    @torch.no_grad()  # type: ignore[untyped-decorator, unused-ignore]
    def restore(self) -> bool:
        """Whether its content was kept or, where it was not, has been changed in its place."""
        tensor, content = self.tensor, self._content
        if self._is_leaf and not tensor.is_leaf:
            tensor.detach_()
        if _place(tensor) != self._place:
            if self._place[0] is not None:
                storage = self._alias.untyped_storage()
                if storage.nbytes() != self._place[0]:
                    storage.resize_(self._place[0])
            tensor.data = self._alias
        if self._is_leaf and tensor.requires_grad != self._requires_grad:
            tensor.requires_grad_(self._requires_grad)
        if content is None:
            return version_of(tensor) != self._version
        if not same_content(tensor, content):
            tensor.copy_(content)
        return True


class _CopyOnWrite(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Keeps the content of tensors that operators inside are about to write."""

    supports_higher_order_operators = True

    def __init__(self, kept: Iterable[_Kept]) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._kept: dict[int, list[_Kept]] = {}  # by storage or, without one, by tensor
        for each in kept:
            self._kept.setdefault(_key(each.tensor), []).append(each)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)  # operators of higher order have none
        if schema is not None and schema.is_mutable:
            for number, argument in enumerate(schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    value = args[number] if number < len(args) else kwargs.get(argument.name)
                    for tensor in tensors_of(value):
                        for kept in self._kept.get(_key(tensor), ()):
                            kept.keep_content()
        return func(*args, **kwargs)


def _key(tensor: Tensor) -> int:
    if _is_plain(tensor):
        return int(tensor.untyped_storage()._cdata)
    return id(tensor)


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and type(tensor) in (Tensor, nn.Parameter)


def _place(tensor: Tensor) -> tuple[Any, ...]:
    """Bytes of its storage (None: it has none of its own), and what tells where it is in it."""
    if not _is_plain(tensor):
        return None, tensor.shape, tensor.dtype
    storage = tensor.untyped_storage()
    where = tensor.storage_offset(), tensor.stride(), storage.data_ptr()
    return storage.nbytes(), tensor.shape, tensor.dtype, tensor.device, where


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, (dict, set)) else value


def _with_added(hooks: Any, now: Any) -> Any:
    """Hooks that a step removed are there again; those that it added stay.

    A model may note elsewhere that it has added them, as transformers' collecting of outputs does,
    and would not do so again.
    """
    return {**hooks, **now} if isinstance(hooks, dict) and isinstance(now, dict) else now


def _refill(registry: Any, content: Any) -> None:
    """The registry itself stays, since handles of hooks refer to it."""
    if registry is not None:
        registry.clear()
        registry.update(content)


def _hooks_of(tensors: Iterable[Tensor], name: str) -> list[tuple[Tensor, dict[Any, Any]]]:
    return [(tensor, dict(getattr(tensor, name, None) or {})) for tensor in tensors]


def _put_back(hooks: Iterable[tuple[Tensor, dict[Any, Any]]], name: str) -> None:
    for tensor, kept in hooks:
        registry = getattr(tensor, name, None)
        _refill(registry, _with_added(kept, registry or {}))
