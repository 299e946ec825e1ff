"""One rank of a training job of several, in a process that is alone.

Its process group is PyTorch's "fake" one: collectives make their outputs, and talk to nobody. So
`fully_shard`, `parallelize_module` and DTensors run with their own code. The reducer of
DistributedDataParallel is C++ that reads its tensors; what it holds is counted in its place.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from stowage.errors import StowageError
from stowage.estimates.live_bytes import LiveBytes

BUCKETS = "buckets"
GATHERED = "gathered weights"


@contextlib.contextmanager
def first_rank_of(count: int | None) -> Iterator[None]:
    """Inside, this process is rank 0 of so many, whose tensors are on CPUs. None: it stays alone.

    Raises:
        StowageError: The process is a rank of others already.
    """
    if count is None:
        yield
        return
    if not torch.distributed.is_available():
        raise StowageError("ranks: this PyTorch is built without torch.distributed; leave them out")
    if torch.distributed.is_initialized():
        raise StowageError(
            f"ranks: this process has a process group of {torch.distributed.get_backend()} already:"
            " call torch.distributed.destroy_process_group() before, or estimate in a process of "
            "its own"
        )
    from torch.distributed.device_mesh import DeviceMesh
    from torch.testing._internal.distributed import fake_pg  # noqa: F401, registers the backend

    hook = sys.excepthook  # a group has errors print its rank, also once it is gone
    torch.distributed.init_process_group("fake", rank=0, world_size=count)
    try:
        with (
            replaced(DeviceMesh, __init__=_on_cpus(DeviceMesh.__init__)),
            replaced(DistributedDataParallel, __init__=_wrap, forward=_forward, **_OF_REDUCERS),
        ):
            yield
    finally:
        torch.distributed.destroy_process_group()
        sys.excepthook = hook


def buckets_of(model: nn.Module) -> dict[nn.Parameter, Tensor]:
    """By parameter: what the reducers of DistributedDataParallel hold for its gradient."""
    return {
        parameter: torch.empty_like(parameter, requires_grad=False)
        for wrapper in _wrappers_in(model)
        for parameter in wrapper.module.parameters()
        if parameter.requires_grad
    }


def gradients_are_buckets(model: nn.Module) -> bool:
    """Whether gradients are views of the buckets."""
    return any(wrapper.gradient_as_bucket_view for wrapper in _wrappers_in(model))


@contextlib.contextmanager
def counting_groups(live: LiveBytes) -> Iterator[None]:
    """Counts what the groups of `fully_shard` gather and reduce by its purpose."""
    if not torch.distributed.is_available():
        yield
        return
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

    handles: dict[nn.Parameter, Any] = {}
    wait = FSDPParamGroup.wait_for_unshard

    def count(parameter: Tensor) -> None:
        live.count([parameter.grad], "gradients")

    def wait_for_unshard(group: Any) -> None:
        with live.made_for(GATHERED):
            wait(group)
        for parameter in (p.unsharded_param for p in group.fsdp_params if group.is_unsharded):
            if parameter.requires_grad and parameter not in handles:
                handles[parameter] = parameter.register_post_accumulate_grad_hook(count)

    try:
        with replaced(
            FSDPParamGroup,
            unshard=_made_for(GATHERED, live, FSDPParamGroup.unshard),
            wait_for_unshard=wait_for_unshard,
            post_backward=_made_for("gradients", live, FSDPParamGroup.post_backward),
        ):
            yield
    finally:
        for handle in handles.values():
            handle.remove()


@contextlib.contextmanager
def replaced(owner: Any, **members: Any) -> Iterator[None]:
    """Inside, `owner` has these members in place of its own."""
    former = {name: getattr(owner, name) for name in members}
    for name, member in members.items():
        setattr(owner, name, member)
    try:
        yield
    finally:
        for name, member in former.items():
            setattr(owner, name, member)


def _made_for(purpose: str, live: LiveBytes, run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def counted(*args: Any, **kwargs: Any) -> Any:
        with live.made_for(purpose):
            return run(*args, **kwargs)

    return counted


def _on_cpus(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def of_cpus(mesh: Any, /, *args: Any, **options: Any) -> None:
        if not args:
            options["device_type"] = "cpu"
        init(mesh, *("cpu", *args[1:])[: len(args)], **options)

    return of_cpus


def is_wrapped(model: nn.Module) -> bool:
    return isinstance(model, DistributedDataParallel)


def _wrappers_in(model: nn.Module) -> list[Any]:
    return [part for part in model.modules() if is_wrapped(part)]


_SIGNATURE = inspect.signature(DistributedDataParallel.__init__)


def _wrap(wrapper: Any, *args: Any, **kwargs: Any) -> None:
    """DistributedDataParallel.__init__ without the reducer."""
    options = _SIGNATURE.bind(wrapper, *args, **kwargs).arguments
    if options.get("mixed_precision") is not None:
        raise StowageError(
            "ranks: DistributedDataParallel has mixed_precision, whose copies estimates do not "
            "count: leave it out, or use torch.autocast"
        )
    nn.Module.__init__(wrapper)
    wrapper.module = options["module"]
    wrapper.gradient_as_bucket_view = options.get("gradient_as_bucket_view", False)
    wrapper.require_backward_grad_sync = True  # of no_sync()


def _ignore(wrapper: Any, *args: Any, **kwargs: Any) -> None:
    """What only a reducer does."""


_OF_REDUCERS = {"register_comm_hook": _ignore, "_set_static_graph": _ignore}


def _forward(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
    return wrapper.module(*args, **kwargs)
