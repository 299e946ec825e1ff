"""A model's profile, saved in the directory of its plans so that a restarted job measures nothing.

What tells whether a profile is of the same work is written into the file and compared: the model's
modules, their attributes and the code of their forwards, sizes and types, the sample's, the code of
the loss, the device, versions and switches of PyTorch. Functions that these call are not looked at.
A wrong profile costs time or memory and no gradient: each start compares a step with plain
training's, and each step its replays with the first run.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import pathlib
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from stowage.errors import StowageError
from stowage.local import memory_range
from stowage.model import Chain, SaveOption
from stowage.plan_file import write_durably
from stowage.torch.layers.stage import Stage
from stowage.torch.layers.switches import configs_of
from stowage.torch.measuring.workload import Workload
from stowage.torch.profiling.overheads import ChainMemory, Overheads
from stowage.torch.profiling.profiler import Profile
from stowage.torch.tensors.kept_results import Way
from stowage.version import __version__

_log = logging.getLogger("stowage")
_FORMAT = 3
_SWITCHES = ("flash_sdp_enabled", "mem_efficient_sdp_enabled", "math_sdp_enabled")
_UNREADABLE = (
    *(ValueError, LookupError, TypeError, AttributeError, RecursionError),
    StowageError,
)
_SIMPLE = (bool, int, float, str, type(None), torch.dtype)


class ProfileFile:
    """The saved profile of one model. What cannot be read or written is as if it were not there.

    Args:
        directory: of plans; made where it is missing.
        model: whose profile it is, in its present modes.
        stages: the model's. `load` sets their ways.
        work: the step that is measured.
        is_chain: whether the stages are, as `Layers` says.
        selective: as of `fit`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        model: nn.Module,
        stages: Sequence[Stage],
        work: Workload,
        *,
        is_chain: bool,
        selective: bool | Sequence[str],
    ) -> None:
        self._stages = stages
        ways = selective if isinstance(selective, bool) else list(selective)
        choices = {"chain": is_chain, "selective": ways}
        self._of = {**_of_torch(work), **_of_model(model, stages, work), **choices}
        digest = hashlib.sha256(json.dumps(self._of, sort_keys=True).encode()).hexdigest()
        self.path = pathlib.Path(directory) / f"{type(model).__name__}-{digest[:16]}.profile.json"

    def read(self) -> bytes | None:
        """Its content; None: there is none that can be read."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("%s is of no use: %s", self.path, error)
            return None

    def load(self, read: bytes | None) -> Profile | None:
        """The profile of what was read."""
        if read is None:
            return None
        try:
            content = json.loads(read)
            if content["format"] != _FORMAT or content["of"] != self._of:
                return None
            profile = _profile_of(content)
            memory_range(profile.memory.lean(profile.chain))  # raises where it is not valid
            ways = [[way_of(way) for way in of_stage] for of_stage in content["ways"]]
            counts = [len(stage.save_options) for stage in profile.chain.stages]
            if counts != [len(of_stage) for of_stage in ways] or len(counts) != len(self._stages):
                return None
        except _UNREADABLE as error:
            _log.warning("%s is of no use: %s", self.path, error)
            return None
        for stage, of_stage in zip(self._stages, ways, strict=True):
            stage.ways = tuple(of_stage)
        return profile

    def save(self, profile: Profile) -> None:
        content = {
            "format": _FORMAT,
            "of": self._of,
            **_content_of(profile),
            "ways": [[content_of_way(way) for way in stage.ways] for stage in self._stages],
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(self.path, json.dumps(content).encode())
        except OSError as error:
            _log.warning("cannot write %s: %s", self.path, error)

    def forget(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


def _of_torch(work: Workload) -> dict[str, Any]:
    device = work.device
    kind = device.type
    name = torch.cuda.get_device_name(device) if kind == "cuda" else ""
    return {
        "stowage": __version__,
        "torch": torch.__version__,
        "processes": work.ranks.count,
        "device": [kind, name, torch.get_num_threads() if kind == "cpu" else 0],
        "default type": str(torch.get_default_dtype()),
        "autocast": [torch.is_autocast_enabled(kind), str(torch.get_autocast_dtype(kind))],
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "attention": [getattr(torch.backends.cuda, switch)() for switch in _SWITCHES],
        "cudnn": [torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark],
    }


def _of_model(model: nn.Module, stages: Sequence[Stage], work: Workload) -> dict[str, Any]:
    modules = [
        [name, _class_of(module), _code_of(type(module).forward), *_read(vars(module))]
        for name, module in model.named_modules()
    ]
    # Of transformers: which attention it uses, and what else layers look at.
    configs = [_read(vars(config)) for config in configs_of(model)]
    tensors = [
        [name, *_size_of(tensor)] for name, tensor in (*_parameters(model), *model.named_buffers())
    ]
    # The tree of modules and all tensors are long.
    digest = hashlib.sha256(json.dumps([modules, configs, tensors]).encode()).hexdigest()
    return {
        "model": [_class_of(model), digest],
        "layers": [stage.name for stage in stages],
        "sample": [_size_of(tensor) for tensor in work.sample],
        "loss": _code_of(work.loss),
    }


def _parameters(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    # A weight that is used twice has two names.
    return model.named_parameters(remove_duplicate=False)


def _class_of(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _read(attributes: dict[str, Any]) -> list[list[str]]:
    """Those that tell what a module's code does."""
    texts = [(name, _text_of(value)) for name, value in attributes.items()]
    return sorted([name, text] for name, text in texts if text)


def _text_of(value: Any) -> str:
    if isinstance(value, _SIMPLE):
        return repr(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        texts = [_text_of(entry) for entry in value]
        return str(texts if isinstance(value, (list, tuple)) else sorted(texts)) if texts else ""
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return _code_of(value)
    return ""


def _code_of(function: Any) -> str:
    """What a function is called and, where that is known, a digest of its code."""
    if isinstance(function, functools.partial):
        return _code_of(function.func)
    name = getattr(function, "__qualname__", _class_of(function))
    code = getattr(function, "__code__", None)
    if code is None:
        return str(name)
    constants = [entry for entry in code.co_consts if isinstance(entry, _SIMPLE)]
    text = [code.co_code.hex(), repr(constants), repr(code.co_names)]
    return f"{name} {hashlib.sha256(json.dumps(text).encode()).hexdigest()[:16]}"


def _size_of(tensor: Tensor) -> list[Any]:
    return [list(tensor.shape), str(tensor.dtype), tensor.requires_grad]


def _content_of(profile: Profile) -> dict[str, Any]:
    memory = profile.memory
    return {
        "chain": json.loads(profile.chain.to_json()),
        "input": [[list(shape), str(dtype)] for shape, dtype in profile.input],
        "outside_bytes": profile.outside_bytes,
        "outside_peak_bytes": profile.outside_peak_bytes,
        "plain_seconds": profile.plain_seconds,
        "plain_peak_bytes": profile.plain_peak_bytes,
        "overheads": [asdict(overheads) for overheads in memory.of_stages],
        "shared": memory.shared,
        "passing": memory.passing,
        "options": [[asdict(option) for option in of_stage] for of_stage in memory.options],
        "notes": list(profile.notes),
    }


def _profile_of(content: dict[str, Any]) -> Profile:
    sizes = [
        *(content[field] for field in ("outside_bytes", "outside_peak_bytes")),
        *(content["shared"], content["passing"]),
        *(size for overheads in content["overheads"] for size in overheads.values()),
        *(length for shape, _ in content["input"] for length in shape),
    ]
    plain = content["plain_peak_bytes"], content["plain_seconds"]
    if plain != (None, None):
        sizes.append(plain[0])
        if not isinstance(plain[1], float):
            raise TypeError("plain_seconds is no number")
    if not all(type(size) is int for size in sizes):
        raise TypeError("a size is no whole number")
    memory = ChainMemory(
        tuple(Overheads(**overheads) for overheads in content["overheads"]),
        content["shared"],
        content["passing"],
        tuple(tuple(map(_option_of, each)) for each in content["options"]),
    )
    return Profile(
        Chain.from_json(json.dumps(content["chain"])),
        tuple((tuple(shape), _dtype_of(dtype)) for shape, dtype in content["input"]),
        content["outside_bytes"],
        content["outside_peak_bytes"],
        content["plain_seconds"],
        content["plain_peak_bytes"],
        memory,
        tuple(content["notes"]),
    )


def _option_of(content: dict[str, Any]) -> SaveOption:
    """JSON has lists in the place of tuples."""
    fields: dict[str, Any] = dict(content)
    for name in ("kept", "rerun"):
        fields[name] = tuple(fields.get(name, ()))
    return SaveOption(**fields)


def _dtype_of(text: str) -> torch.dtype:
    dtype = getattr(torch, text.removeprefix("torch."))
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{text} is no type of a tensor")
    return dtype


def content_of_way(way: Way) -> dict[str, Any]:
    """What `way_of` reads."""
    return {
        "name": way.name,
        "operators": [str(operator) for operator in way.operators],
        "kept": sorted(way.kept),
        "joined": sorted(way.joined.items()),
    }


def way_of(content: dict[str, Any]) -> Way:
    """Raises where the content is damaged."""
    kept, length = set(content["kept"]), len(content["operators"])
    if not all(leader in kept and leader < number < length for number, leader in content["joined"]):
        raise ValueError("an operator is joined to one that is not kept")
    return Way(
        content["name"],
        tuple(_operators_of(content["operators"])),
        frozenset(content["kept"]),
        dict(content["joined"]),
    )


def _operators_of(names: Iterable[str]) -> Iterator[Any]:
    for name in names:
        namespace, operator, overload = name.split(".")
        yield getattr(getattr(getattr(torch.ops, namespace), operator), overload)
