"""Stowage and what PyTorch has, on one GPU with models of real sizes: peaks, step times, waits.

usage: peers_on_gpu.py [--model NAME[:ROW|ROW…]]… [--seconds S] [--json FILE]
       peers_on_gpu.py --device cpu --tiny      tries this program

Prints a table in Markdown for each model, row by row, the most telling ones first; what the seconds
are not enough for is left out. Peaks are those of a step's activations, by the allocator's counter
beyond what is in use before the step; step times are medians, of forward and backward. Stowage runs
within each peer's measured peak, and within 30, 50 and 70 % of the range from the least that a
schedule needs to plain training's peak, with transfers and without. Later calls of `stowage.fit`
read the profile of a model's first one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torchvision
import transformers
from peers import checkpointed, loss_of
from torch import nn

import stowage
from stowage.torch.fitted import Fitted
from stowage.torch.measuring.meter import MemoryMeter
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.workload import synchronize


@dataclass
class Case:
    """A model that trains on one sample of `items` sequences or images."""

    model: nn.Module
    sample: Any
    layers: list[nn.Module]
    items: int
    device: torch.device
    bfloat16: bool  # under autocast

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)

    def loss(self) -> torch.Tensor:
        """Drops the model's output, whose logits may be as large as its activations."""
        with self.autocast():
            sample = self.sample
            return loss_of(self.model(**sample) if isinstance(sample, dict) else self.model(sample))

    def step(self) -> None:
        torch.autograd.backward([self.loss()])


@dataclass
class Figures:
    peak: int
    seconds: float
    reserved: int  # by the allocator, of the device, at most


def measured(case: Case, longest: float) -> Figures:
    """After two steps that are not counted; for about so many seconds."""
    with unchanged(case.model):
        for _ in range(2):
            case.step()
        synchronize(case.device)
        is_gpu = case.device.type == "cuda"
        if is_gpu:
            torch.cuda.empty_cache()
        with MemoryMeter(case.device) as meter, meter.span("step"):
            case.step()
        reserved = torch.cuda.max_memory_reserved(case.device) if is_gpu else 0
        seconds: list[float] = []
        end = time.perf_counter() + longest
        while len(seconds) < 3 or (time.perf_counter() < end and len(seconds) < 15):
            synchronize(case.device)
            begin = time.perf_counter()
            case.step()
            synchronize(case.device)
            seconds.append(time.perf_counter() - begin)
    span = meter.spans["step"]
    return Figures(span.peak - span.before, statistics.median(seconds), reserved)


def gpt2(device: torch.device, tiny: bool, *, bfloat16: bool) -> Case:
    config = transformers.GPT2Config(
        n_layer=4 if tiny else 12, n_embd=64 if tiny else 768, n_head=4 if tiny else 12,
        vocab_size=500 if tiny else 50257, n_positions=64 if tiny else 1024, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    with torch.device(device):
        model = transformers.GPT2LMHeadModel(config)
        ids = torch.randint(0, config.vocab_size, (2 if tiny else 8, config.n_positions))
    sample = {"input_ids": ids, "labels": ids}
    return Case(model, sample, list(model.transformer.h), len(ids), device, bfloat16 and not tiny)


def llama(device: torch.device, tiny: bool) -> Case:
    """1.1 billion parameters in bfloat16."""
    config = transformers.LlamaConfig(
        num_hidden_layers=4 if tiny else 16, hidden_size=64 if tiny else 2048,
        intermediate_size=128 if tiny else 8192, num_attention_heads=4 if tiny else 32,
        num_key_value_heads=2 if tiny else 8, vocab_size=500 if tiny else 32000,
        max_position_embeddings=2048, use_cache=False,
    )  # fmt: skip
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
        model.to(torch.float32 if tiny else torch.bfloat16)
        ids = torch.randint(0, config.vocab_size, (2, 64) if tiny else (4, 2048))
    sample = {"input_ids": ids, "labels": ids}
    return Case(model, sample, list(model.model.layers), len(ids), device, False)


def resnet50(device: torch.device, tiny: bool) -> Case:
    with torch.device(device):
        model = torchvision.models.resnet50().to(memory_format=torch.channels_last)
        images = torch.randn(*((2, 3, 32, 32) if tiny else (128, 3, 224, 224)))
    images = images.to(memory_format=torch.channels_last)
    layers = [block for i in range(1, 5) for block in getattr(model, f"layer{i}")]
    return Case(model, images, layers, len(images), device, not tiny)


MODELS: dict[str, Callable[[torch.device, bool], Case]] = {
    "gpt2, bfloat16 autocast": lambda device, tiny: gpt2(device, tiny, bfloat16=True),
    "llama, bfloat16": llama,
    "resnet50, bfloat16 autocast": resnet50,
    "gpt2, float32": lambda device, tiny: gpt2(device, tiny, bfloat16=False),
}


class Stowed:
    """One model under `stowage.fit`, within any memory. Its layers are measured once."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._plans = tempfile.TemporaryDirectory()
        begin = time.perf_counter()
        self.fitted = self._fit("50%")
        self.fit_seconds = time.perf_counter() - begin
        stowage.unfit(case.model)

    def _fit(self, activations: int | str, **arguments: Any) -> Fitted:
        case = self._case
        with case.autocast():
            fitted = stowage.fit(
                case.model, case.sample, activations=activations, loss=loss_of,
                plan_cache=self._plans.name, verbose=False, **arguments,
            )  # fmt: skip
        assert fitted is not None  # it raises where there is no plan
        return fitted

    @contextlib.contextmanager
    def within(self, activations: int | str, *, offload: bool) -> Iterator[dict[str, Any]]:
        """Trains so inside; yields what is known before."""
        begin = time.perf_counter()
        fitted = self._fit(activations, offload=offload, measure=False)
        layers = stowage.report(self._case.model).layers
        try:
            yield {
                "budget": fitted.activations,
                "run": fitted.route.run,
                "fit_seconds": time.perf_counter() - begin,
                "predicted_peak": fitted.predicted_peak_bytes,
                "predicted_seconds": fitted.predicted_seconds,
                "recomputed": sum(layer.recomputed for layer in layers),
                "offloaded": sum(layer.offloaded for layer in layers),
            }
        finally:
            stowage.unfit(self._case.model)


def _figure(value: float | None, digits: int, factor: float = 1.0) -> str:
    return "" if value is None else f"{value * factor:.{digits}f}"


class Table:
    """Prints rows as they come, and keeps all of them in a file."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._rows: list[dict[str, Any]] = []
        self._plain_seconds = 0.0

    def begin(self, model: str, case: Case) -> None:
        parameters = sum(p.numel() for p in case.model.parameters())
        print(f"\n### {model}: {parameters / 1e6:.0f} M parameters, batch {case.items}\n")
        print("| | peak, MiB | predicted | step, ms | predicted | of plain | items/s | fit, s |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        self._model, self._items = model, case.items

    def note(self, text: str, **more: Any) -> None:
        print(f"| {text} | | | | | | | |", flush=True)
        self._keep({"model": self._model, "row": text, **more})

    def row(self, label: str, figures: Figures, known: dict[str, Any] | None = None) -> None:
        known = known or {}
        if label == "plain":
            self._plain_seconds = figures.seconds
        ratio = figures.seconds / self._plain_seconds if self._plain_seconds else 0.0
        does = f" ({known['recomputed']} again, {known['offloaded']} away)" if known else ""
        cells = [
            label + does,
            _figure(figures.peak, 0, 2**-20),
            _figure(known.get("predicted_peak"), 0, 2**-20),
            _figure(figures.seconds, 1, 1e3),
            _figure(known.get("predicted_seconds"), 1, 1e3),
            _figure(ratio, 3),
            _figure(self._items / figures.seconds, 1),
            _figure(known.get("fit_seconds"), 2),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
        self._keep(
            {
                "model": self._model,
                "row": label,
                "peak_bytes": figures.peak,
                "reserved_bytes": figures.reserved,
                "step_seconds": figures.seconds,
                "of_plain": ratio,
                **known,
            }
        )

    def _keep(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if self._path is not None:
            with open(self._path, "w") as file:
                json.dump(self._rows, file, indent=1)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


@dataclass
class Rows:
    """Measures one case's rows, until the time is over."""

    case: Case
    table: Table
    end: float
    longest: float  # seconds a row
    rows: str = ""  # the only ones after the plain one: a regular expression
    stowed: Stowed | None = None

    def run(self) -> None:
        if self._peer("plain", contextlib.nullcontext()) is None:
            return
        self.stowed = Stowed(self.case)
        fitted = self.stowed.fitted
        platform = fitted.platform
        self.table.note(
            f"`stowage.fit` takes {self.stowed.fit_seconds:.1f} s; link "
            f"{platform.offload_bytes_per_second / 1e9:.1f} and "
            f"{(platform.prefetch_bytes_per_second or 0) / 1e9:.1f} GB/s, half duplex: "
            f"{platform.half_duplex}",
            fit_seconds=self.stowed.fit_seconds,
            platform=platform.to_dict(),
            profile_plain_seconds=fitted.profile.plain_seconds,
            stage_seconds=[
                (stage.forward_seconds, stage.backward_seconds)
                for stage in fitted.profile.chain.stages
            ],
        )
        layers = self.case.layers
        length = len(layers)
        self._against("`checkpoint` on every layer", checkpointed(layers, length, 0))
        for percent in (50, 30, 70):
            label = f"Stowage, {percent} %"
            for offload in (True, False) if re.search(self.rows, label) else ():
                self._within(f"{percent}%", label, offload=offload)
        for count in sorted({2, 4, length // 2}):
            self._against(f"`checkpoint`, {count} segments", checkpointed(layers, count, 1))
        pinned = self.case.device.type == "cuda"
        self._against("`save_on_cpu`", torch.autograd.graph.save_on_cpu(pin_memory=pinned))

    def _over(self) -> bool:
        return time.monotonic() > self.end

    def _peer(self, label: str, peer: contextlib.AbstractContextManager[Any]) -> Figures | None:
        if self._over():
            return None
        try:
            with peer:
                figures = measured(self.case, self.longest)
        except (RuntimeError, torch.OutOfMemoryError) as error:
            self.table.note(f"{label}: {_first_line(error)}")
            return None
        self.table.row(label, figures)
        return figures

    def _against(self, label: str, peer: contextlib.AbstractContextManager[Any]) -> None:
        if not re.search(self.rows, label):
            return
        figures = self._peer(label, peer)
        if figures is not None:
            for offload in (True, False):
                self._stowage(figures.peak, offload=offload)

    def _stowage(self, peak: int, *, offload: bool) -> None:
        """Within the peak as measured, for which it may take less budget."""
        label, budget = "Stowage, as much", peak
        for _ in range(3):
            figures = self._within(budget, label, offload=offload, most=peak)
            if figures is None or figures.peak <= peak:
                return
            budget -= figures.peak - peak
        self.table.note(f"{label}: its peak is {figures.peak - peak} bytes too high")

    def _within(
        self, activations: int | str, label: str, *, offload: bool, most: int | None = None
    ) -> Figures | None:
        """Its row, unless its peak is above `most`; None: nothing was measured."""
        if self._over():
            return None
        label += ", with transfers" if offload else ", without"
        assert self.stowed is not None
        try:
            with self.stowed.within(activations, offload=offload) as known:
                figures = measured(self.case, self.longest)
        except stowage.InfeasibleError as error:
            least = (error.minimum_memory_bytes or 0) - self.stowed.fitted.use.total
            self.table.note(f"{label}: no schedule; the least is {least / 2**20:.0f} MiB")
            return None
        except (RuntimeError, torch.OutOfMemoryError) as error:
            self.table.note(f"{label}: {_first_line(error)}")
            return None
        if most is None or figures.peak <= most:
            self.table.row(label, figures, {"offload": offload, **known})
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME[:ROW|ROW…]",
        help="a part of its name, and parts of the names of the only rows",
    )
    parser.add_argument("--seconds", type=float, default=170.0, help="for all models")
    parser.add_argument("--row-seconds", type=float, default=0.7, help="about, for a row's steps")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, to try this program")
    options = parser.parse_args()
    device = torch.device(options.device, 0 if options.device == "cuda" else None)
    chosen = [
        (name, rows)
        for part, _, rows in (option.partition(":") for option in options.model or [""])
        for name in MODELS
        if part in name
    ]
    begin = time.monotonic()
    table = Table(options.json)
    for done, (name, rows) in enumerate(chosen):
        left = options.seconds - (time.monotonic() - begin)
        torch.manual_seed(0)
        case = MODELS[name](device, options.tiny)
        case.model.train()
        table.begin(name, case)
        end = time.monotonic() + left / (len(chosen) - done)
        Rows(case, table, end, options.row_seconds, rows).run()
        del case
        if device.type == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
