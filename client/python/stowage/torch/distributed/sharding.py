"""Models that are spread over several processes: which share a plan, and which are refused.

Layers that `fully_shard` (FSDP2) has sharded are gathered by hooks around each call, inside of
which their forwards are replaced. A replay right before the layer's backward finds it gathered for
that, so it talks to nobody; other replays would have to gather it again. Layers that are tensor
parallel talk to other processes themselves, in replays, too: all processes run the same ones.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import NotAChainError
from stowage.torch.distributed.ranks import Ranks

_WRAP_LATER = "fit the model and wrap it then, as in DistributedDataParallel(model)"

# By class, among a module's bases: what it does, and the remedy. By name, so that nothing of
# torch.distributed has to be imported; the first that fits counts.
_MODULES = {
    "DistributedDataParallel": (
        "is wrapped in DistributedDataParallel",
        "wrap the whole model, and fit that",
    ),
    "DataParallel": (
        "is wrapped in DataParallel, whose copies would share one schedule",
        "use DistributedDataParallel: " + _WRAP_LATER,
    ),
    "ReplicateModule": ("is wrapped by replicate", "use DistributedDataParallel: " + _WRAP_LATER),
    "FullyShardedDataParallel": (
        "is sharded by FullyShardedDataParallel (FSDP1)",
        "use fully_shard (FSDP2) on each layer",
    ),
}
_TENSORS = {"FlatParameter": _MODULES["FullyShardedDataParallel"]}


def wrapper_of(model: nn.Module) -> Any:
    """The DistributedDataParallel around the model; None: there is none.

    Raises `NotAChainError` where it wraps a part, or expects the same graph in each backward.
    """
    found = wrapper_elsewhere(model) if _is_initialized() else None
    if found is not None and getattr(found, "static_graph", False):
        raise refusal(
            "", "is wrapped in DistributedDataParallel with static_graph=True", _WRAP_LATER
        )
    return found


def ranks_of(model: nn.Module, wrapper: Any = None) -> Ranks:
    """The processes that share the plan of `model`, which `wrapper` wraps.

    Raises `NotAChainError` that names the first part that is sharded or wrapped otherwise.
    """
    meshes: dict[Any, str] = {}  # by mesh: a parameter that is sharded over it
    for name, module in model.named_modules():
        _refuse(name, type(module), _MODULES)
        for of_tensor, tensor in (*module._parameters.items(), *module._buffers.items()):
            path = f"{name}.{of_tensor}" if name else of_tensor
            # What the original parameters are where FSDP1 keeps them (use_orig_params).
            if getattr(tensor, "_fsdp_flattened", False):
                raise refusal(path, *_TENSORS["FlatParameter"])
            if hasattr(tensor, "ds_id"):
                raise refusal(
                    path,
                    "is partitioned by DeepSpeed's ZeRO 3",
                    "use fully_shard, or ZeRO 1 or 2, and stowage.fit before deepspeed.initialize",
                )
            if not is_sharded(tensor):
                _refuse(path, type(tensor), _TENSORS)
                continue
            if tensor.device.type != tensor.device_mesh.device_type:
                raise refusal(
                    path,
                    "is sharded into host memory (CPUOffloadPolicy)",
                    "leave the policy out; the activations need less memory under stowage.fit",
                )
            meshes.setdefault(tensor.device_mesh, path)
        if isinstance(module, nn.SyncBatchNorm) and module.training and has_others():
            raise refusal(
                name,
                "is a SyncBatchNorm, which waits for the other processes in each run",
                "use BatchNorm, or torch.utils.checkpoint in parts without it, in place of "
                "stowage.fit",
            )
    if wrapper is None:
        return Ranks(_groups_of_meshes(meshes), in_layers=is_tensor_parallel(model))
    if meshes:
        raise refusal(
            next(iter(meshes.values())),
            "is a DTensor, and the model is wrapped in DistributedDataParallel",
            "call fully_shard on its layers, over a mesh of two dimensions, in place of that",
        )
    return Ranks([wrapper.process_group], talk=False)


def _groups_of_meshes(meshes: Mapping[Any, str]) -> list[Any]:
    """The groups of all meshes, which are parts of one. Each mesh has a tensor's name."""
    roots = {mesh._get_root_mesh(): path for mesh, path in meshes.items()}
    if len(roots) > 1:
        first, second, *_ = roots.values()
        raise refusal(
            second,
            f"is on another mesh than {first}",
            "take both from one mesh, as in init_device_mesh(…, mesh_dim_names=…)",
        )
    members_of = torch.distributed.get_process_group_ranks
    groups = [group for mesh in meshes for group in mesh.get_all_groups()]
    return list({tuple(members_of(group)): group for group in groups}.values())


def is_tensor_parallel(model: nn.Module) -> bool:
    """Whether layers compute with DTensors, as parallelize_module makes them of parameters, so that
    they talk to other processes.
    """
    known = set()
    for parameter in (
        p for m in model.modules() for group in _groups_of(m) for p in group.fsdp_params
    ):
        known |= {id(parameter.sharded_param), id(getattr(parameter, "_unsharded_param", None))}
        over = parameter.mesh_info
        count = getattr(over, "shard_mesh_size", 1) * getattr(over, "replicate_mesh_size", 1)
        if getattr(parameter, "is_dtensor", False) and parameter._spmd_mesh.size() > count:
            return True
    tensors = (*model.parameters(), *model.buffers())
    return any(is_sharded(tensor) and id(tensor) not in known for tensor in tensors)


def is_sharded(tensor: Any) -> bool:
    """Whether it is a DTensor, of which this process has a part."""
    return is_a(type(tensor), "DTensor")


def part_of(tensor: Tensor) -> Tensor:
    """What this process has of it, detached."""
    with torch.no_grad():
        return tensor.detach().to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined, no-any-return, unused-ignore]


def is_fully_sharded(module: nn.Module) -> bool:
    """Whether hooks gather the module's parameters around each call."""
    return is_a(type(module), "FSDPModule")


def is_gathered(module: nn.Module) -> bool:
    """Whether no parameter of the module is sharded by it. Requires: is_fully_sharded(module)."""
    return all(group.is_unsharded for group in _groups_of(module))


def gathered(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that `fully_shard` of this module has gathered, and not sharded again."""
    return [
        parameter._unsharded_param
        for group in _groups_of(module)
        if group.is_unsharded
        for parameter in group.fsdp_params
    ]


def gathered_ahead(module: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    """The modules that its forward gathers ahead of theirs, and its backward; where it is told."""
    if not is_fully_sharded(module):
        return [], []
    state = module._get_fsdp_state()  # type: ignore[operator, unused-ignore]
    lists = state._states_to_forward_prefetch, state._states_to_backward_prefetch
    of_forward, of_backward = ([m for s in states for m in s._modules] for states in lists)
    return of_forward, of_backward


def settle(model: nn.Module, *, failed: bool = False) -> None:
    """Has parameters sharded that a forward without a backward, or one that raised, has left whole.

    What is left of the gradients of whole parameters is dropped.
    """
    modules = [module for module in model.modules() if is_fully_sharded(module)]
    whole = [parameter for module in modules for parameter in gathered(module)]
    if not modules or not (whole or failed):
        return
    for parameter in whole:
        parameter.grad = None
    gradients = [(p, p.grad) for p in model.parameters() if is_sharded(p)]
    for module in modules:
        if failed and hasattr(module, "reset_iter_state"):
            # It is not the root, or never ran.
            with contextlib.suppress(RuntimeError, AttributeError):
                module.reset_iter_state()  # type: ignore[operator, unused-ignore]
        module.reshard()  # type: ignore[operator, unused-ignore]
    for parameter, gradient in gradients:
        parameter.grad = gradient


def refuse_parts(name: str, modules: Sequence[nn.Module]) -> None:
    """Raises `NotAChainError` where a stage's modules are sharded as no replay can follow."""
    sharded = [module for module in modules if is_fully_sharded(module)]
    if sharded and len(modules) > 1:
        raise refusal(
            name,
            "run as one, since a layer changes its input in place, and are sharded one by one",
            "use inplace=False there",
        )
    for module in modules:
        for inner, part in module.named_modules():
            if part is not module and is_fully_sharded(part):
                raise refusal(
                    f"{name}.{inner}",
                    f"is sharded by fully_shard inside of the layer {name}",
                    f"call fully_shard on {name} in place of its parts",
                )
        if any(casts_output(part) for part in sharded):
            raise refusal(
                name,
                "casts its output for the next layer, by output_dtype of its MixedPrecisionPolicy",
                "leave that to the root's policy",
            )
        if sharded and "_compiled_call_impl" in vars(module):
            raise refusal(
                name,
                "is compiled by Module.compile() with the hooks of fully_shard",
                "compile its forward alone, as in layer.forward = torch.compile(layer.forward)",
            )


def forget_forward(wrapper: Any) -> None:
    """Has DistributedDataParallel wait no longer for the backward of a forward, after a failure."""
    if wrapper is not None and hasattr(wrapper.reducer, "_reset_state"):
        wrapper.reducer._reset_state()


def refuse_pending(model: nn.Module) -> None:
    """Raises in the middle of a step, whose gradients steps that measure would add to or take."""
    for name, module in model.named_modules():
        for group in _groups_of(module):
            if _has_pending(group):
                raise refusal(
                    name,
                    "has gradients that are not reduced, or is told not to reduce them, as between "
                    "two micro-batches",
                    "finish the step, and call stowage.fit then",
                )
            if not getattr(group, "reshard_after_backward", True):
                raise refusal(
                    name,
                    "keeps its parameters whole after a backward",
                    "leave set_reshard_after_backward(False) out",
                )


def _groups_of(module: nn.Module) -> Sequence[Any]:
    """The groups of parameters that are gathered together; none where it is not fully sharded."""
    if not is_fully_sharded(module):
        return ()
    return module._get_fsdp_state()._fsdp_param_groups  # type: ignore[no-any-return, operator, union-attr, unused-ignore]


def _has_pending(group: Any) -> bool:
    reduces = getattr(group, "reduce_grads", True) and getattr(group, "all_reduce_grads", True)
    if not reduces or getattr(group, "_partial_reduce_output", None) is not None:
        return True
    for parameter in getattr(group, "fsdp_params", ()):
        whole = getattr(parameter, "_unsharded_param", None)
        if whole is not None and whole.grad is not None:
            return True
        if whole is not None and getattr(parameter, "unsharded_accumulated_grad", None) is not None:
            return True
    return False


@contextlib.contextmanager
def before_the_first_run(model: nn.Module) -> Iterator[None]:
    """Runs inside leave what fully_shard finds in a model's first run: which module is the root.

    That may be one around this model, or one that is yet to be sharded.
    """
    states = [module._get_fsdp_state() for module in model.modules() if is_fully_sharded(module)]  # type: ignore[operator, unused-ignore]
    fresh: dict[int, Any] = {id(s): s for s in states if getattr(s, "_is_root", False) is None}
    kept = [(s, s._state_ctx, s._comm_ctx) for s in fresh.values()]
    meshes = [
        (group, group.post_forward_mesh_info)
        for s in fresh.values()
        for group in s._fsdp_param_groups
    ]
    try:
        yield
    finally:
        for state, context, communication in kept:
            context.all_states.clear()
            state._is_root, state._state_ctx, state._comm_ctx = None, context, communication
        for group, mesh in meshes:
            group.post_forward_mesh_info = mesh


def casts_output(module: nn.Module) -> bool:
    """Whether its hooks do. Requires: is_fully_sharded(module)."""
    policy = module._get_fsdp_state()._mp_policy  # type: ignore[operator, union-attr, unused-ignore]
    return policy.output_dtype not in (None, policy.param_dtype)


def is_a(kind: type, name: str) -> bool:
    return any(base.__name__ == name for base in kind.__mro__)


def _refuse(name: str, kind: type, table: dict[str, tuple[str, str]]) -> None:
    for base, (what, remedy) in table.items():
        if is_a(kind, base):
            raise refusal(name, what, remedy)


def refusal(name: str, what: str, remedy: str) -> NotAChainError:
    return NotAChainError(f"{name or 'the model'} {what}: {remedy}")


def wrapper_elsewhere(model: nn.Module) -> Any:
    """The DistributedDataParallel around the model, on which it leaves no mark."""
    modules = set(model.modules())
    if not any(_wrappers(modules)):
        return None
    gc.collect()  # a wrapper is part of cycles, and may be one that nobody has any more
    found = None
    for wrapper in _wrappers(modules):
        if model not in set(wrapper.module.modules()):
            names = {module: name for name, module in model.named_modules()}
            name = names.get(wrapper, names.get(wrapper.module, ""))
            raise refusal(name, *_MODULES["DistributedDataParallel"])
        found = wrapper
    return found


def _wrappers(modules: set[nn.Module]) -> Iterable[Any]:
    for thing in gc.get_objects():
        # By its type: asking the object may run code of its class.
        if issubclass(type(thing), nn.parallel.DistributedDataParallel):
            wrapped = thing.__dict__.get("_modules", {}).get("module")
            if wrapped is not None and not modules.isdisjoint(wrapped.modules()):
                yield thing


def _is_initialized() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def has_others() -> bool:
    return _is_initialized() and torch.distributed.get_world_size() > 1
