"""What a step of a language model takes, of which the configuration is enough.

python -m stowage.estimates --config config.json --batch 4 --length 8192 --gpu H100-80G
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from stowage.errors import InfeasibleError, StowageError
from stowage.estimates.batches import largest_batch
from stowage.estimates.estimate import Estimate, estimate
from stowage.estimates.hardware.gpus import gpus
from stowage.estimates.verdicts import DOES_NOT_FIT, FITS, FITS_WITH_A_PLAN, Verdict

_CODES = {FITS: 0, FITS_WITH_A_PLAN: 3, DOES_NOT_FIT: 2}
_WRONG = 1
_OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer] | None] = {
    "adamw": torch.optim.AdamW,
    "sgd": lambda parameters: torch.optim.SGD(parameters, momentum=0.9),
    "none": None,
}
_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0; of a step on GPUs 0 where it fits one, 3 where it fits one with a
    plan, 2 where it fits none; 1 after an error.
    """
    options = _parser().parse_args(arguments)
    try:
        verdicts = _printed(options)
    except InfeasibleError as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return _CODES[DOES_NOT_FIT]
    except (StowageError, ValueError, OSError) as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return _WRONG
    except Exception as error:  # of the model's own code
        kind = type(error).__name__
        print(f"{_PROGRAM}: a step of the model fails: {kind}: {error}", file=sys.stderr)
        return _WRONG
    outcomes = {verdict.outcome for verdict in verdicts}
    return next((code for outcome, code in _CODES.items() if outcome in outcomes), 0)


def _printed(options: argparse.Namespace) -> Sequence[Verdict]:
    """Estimates, and prints what is found."""
    if options.job is not None and not options.gpu:
        raise ValueError("job: its times are those of a GPU: pass one by --gpu")
    make = _maker_of(options.config, _TYPES[options.weights], options.length)
    if options.ddp is not None:
        make = _then(DistributedDataParallel, make)
    elif options.fsdp is not None:
        make = _then(_fully_sharded, make)
    more: dict[str, Any] = {
        "optimizer": _OPTIMIZERS[options.optimizer],
        "autocast": _TYPES[options.autocast] if options.autocast else None,
        "device": options.device,
        "calibration": options.calibration,
        "accumulation": options.accumulation,
        "ranks": options.ddp if options.ddp is not None else options.fsdp,
    }
    if options.batch != _LARGEST:
        sample, job = _sample(options.batch, options.length), options.job is not None
        found = estimate(make, sample, gpu=options.gpu, job=job, **more)
        print(found)
        if job:
            _write_job(found, options.job)
        return found.verdicts
    if options.job is not None:
        raise ValueError("job: is of one batch: pass its size by --batch")
    if len(options.gpu) != 1:
        raise ValueError("batch: 'largest' is for one GPU: pass one by --gpu")
    batches = largest_batch(make, lambda size: _sample(size, options.length), *options.gpu, **more)
    print(batches)
    return [batches.largest.verdict]


def _write_job(found: Estimate, path: str) -> None:
    if found.job is None:
        raise StowageError(f"job: {path} is not written: {found.notes[-1]}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(found.job.to_json())


_PROGRAM = "python -m stowage.estimates"
_LARGEST = "largest"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """argparse's own exit code is the one of what does not fit."""
        self.exit(_WRONG, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=_PROGRAM, description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--config", required=True, metavar="FILE", help="config.json of a model of transformers")
    add(
        "--batch",
        required=True,
        type=lambda text: text if text == _LARGEST else _positive(text),
        metavar="N",
        help=f"sequences in a step; {_LARGEST!r}: as many as fit",
    )
    add("--length", required=True, type=_positive, metavar="N", help="tokens in a sequence")
    add("--optimizer", choices=_OPTIMIZERS, default="adamw", help="default: adamw")
    add("--weights", choices=_TYPES, default="float32", help="their type; default: float32")
    add("--autocast", choices=("bfloat16", "float16"), help="default: off")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="whose kernels; default: cuda")
    add("--calibration", metavar="FILE", help="ratios of runs, of which the interval is then")
    add(
        "--accumulation",
        type=_positive,
        default=1,
        metavar="N",
        help="micro-batches of --batch sequences in a step; default: 1",
    )
    parallel = parser.add_mutually_exclusive_group()
    text = "memory of one of N ranks under DistributedDataParallel; default: one process"
    parallel.add_argument("--ddp", type=_positive, metavar="N", help=text)
    text = "of one of N ranks, with fully_shard of each layer and of the model"
    parallel.add_argument("--fsdp", type=_positive, metavar="N", help=text)
    names = " ".join(gpu.name for gpu in gpus())
    add("--gpu", action="append", default=[], metavar="NAME", help=f"may be repeated; of {names}")
    add("--job", metavar="FILE", help="file to write the step to as a job, for stowage admit")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"is {text!r}; it must be a whole number from 1 on")
    return int(text)


def _maker_of(path: str, kind: torch.dtype, length: int) -> Callable[[], nn.Module]:
    """What makes the model that the file's `architectures` name. Downloads nothing."""
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except json.JSONDecodeError as error:
            raise ValueError(f"config: {path} is no JSON: {error}") from error
        except RecursionError as error:
            raise ValueError(f"config: {path} is nested too deep") from error
    model = _class_in(content, path)
    if content.get("quantization_config") is not None:
        raise ValueError(
            f"config: {path} has a quantization_config, which estimates do not know: leave it out"
        )
    try:
        config = model.config_class.from_dict(content)
    except Exception as error:  # whatever transformers raises for a value that cannot be
        raise ValueError(f"config: {path} is no {model.config_class.__name__}: {error}") from error
    config.use_cache = False
    most = getattr(config, "max_position_embeddings", None)
    if isinstance(most, int) and length > most:
        raise ValueError(
            f"length: is {length}, and {path} has max_position_embeddings of {most}: raise it "
            "there, or pass fewer"
        )

    def make() -> nn.Module:
        made: nn.Module = model(config).to(kind)
        return made.train()

    return make


def _then(
    spread: Callable[[nn.Module], nn.Module], make: Callable[[], nn.Module]
) -> Callable[[], nn.Module]:
    return lambda: spread(make())


def _fully_sharded(model: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
    # Its layers are the model's, where several lists are.
    layers = max(lists, key=lambda part: sum(p.numel() for p in part.parameters()), default=())
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)
    return model


def _class_in(content: Any, path: str) -> Any:
    """The language model that a configuration is of."""
    import transformers

    names = content.get("architectures") if isinstance(content, dict) else None
    name = names[0] if isinstance(names, list) and names else None
    model = getattr(transformers, name, None) if isinstance(name, str) else None
    if name is None or not (
        isinstance(model, type) and issubclass(model, transformers.PreTrainedModel)
    ):
        raise ValueError(
            f"config: {path} names no model of transformers {transformers.__version__} in "
            f"architectures, which is {names!r:.99}"
        )
    if "input_ids" not in inspect.signature(model.forward).parameters or not name.endswith(_HEADS):
        raise ValueError(
            f"config: {name} is no language model that is trained on tokens, as one whose name "
            f"ends with {' or '.join(_HEADS)}: use stowage.estimate with a sample of yours"
        )
    return model


# Of models whose labels are tokens.
_HEADS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForPreTraining")


def _sample(batch: int, length: int) -> dict[str, torch.Tensor]:
    ids = torch.zeros(batch, length, dtype=torch.long, device="meta")
    return {"input_ids": ids, "labels": ids}


if __name__ == "__main__":
    sys.exit(main())
