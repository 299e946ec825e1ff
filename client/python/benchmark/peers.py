"""Step times of Stowage and of what PyTorch has, each at the same measured peak of activations.

usage: peers.py [--model resnet50|gpt2|llama] [--compiled] [--rounds N] [--threads N]

Prints a table in Markdown for each model. A peer's peak is measured first; then a copy of the
model is fitted to that peak, and both are timed in turn, round by round, so that a change of the
machine's speed meets both. Times are medians over the rounds. The first row is plain training
against a copy that was fitted to plain training's own peak and so runs as it did: its ratio is
the noise.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torchvision
import transformers
from torch import nn
from torch.utils.checkpoint import checkpoint

import stowage
from stowage.torch.model_state import unchanged
from stowage.torch.workload import Workload, measure_step

CPU = torch.device("cpu")


@dataclass
class Case:
    """A model that trains on one sample; `call` is the model, or what torch.compile made of it."""

    model: nn.Module
    sample: Any
    layers: list[nn.Module]
    call: Callable[..., Any]

    def forward(self) -> Any:
        return self.call(**self.sample) if isinstance(self.sample, dict) else self.call(self.sample)

    def twin(self) -> Case:
        model, layers = copy.deepcopy((self.model, self.layers))
        return Case(model, self.sample, layers, model)

    def step(self) -> float:
        """Its seconds."""
        begin = time.perf_counter()
        torch.autograd.backward([loss_of(self.forward())])
        return time.perf_counter() - begin

    def peak(self) -> int:
        with unchanged(self.model):
            self.step()
            return measure_step(Workload(self.forward, loss_of, CPU))[1]


def loss_of(output: Any) -> torch.Tensor:
    return output["loss"] if isinstance(output, dict) else output.float().square().mean()


def resnet50() -> Case:
    model = torchvision.models.resnet50()
    layers = [
        block for name in ("layer1", "layer2", "layer3", "layer4") for block in getattr(model, name)
    ]
    return Case(model, torch.randn(8, 3, 96, 96), layers, model)


def gpt2() -> Case:
    config = transformers.GPT2Config(
        n_layer=8, n_embd=256, n_head=8, vocab_size=1000, n_positions=256, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    ids = torch.randint(0, 1000, (4, 256))
    model = transformers.GPT2LMHeadModel(config)
    return Case(model, {"input_ids": ids, "labels": ids}, list(model.transformer.h), model)


def llama() -> Case:
    config = transformers.LlamaConfig(
        num_hidden_layers=8, hidden_size=256, intermediate_size=688, num_attention_heads=8,
        num_key_value_heads=4, vocab_size=1000, use_cache=False,
    )  # fmt: skip
    ids = torch.randint(0, 1000, (4, 256))
    model = transformers.LlamaForCausalLM(config)
    return Case(model, {"input_ids": ids, "labels": ids}, list(model.model.layers), model)


MODELS = {"resnet50": resnet50, "gpt2": gpt2, "llama": llama}

# Makes a case train as a peer does, until the context ends.
Peer = Callable[[Case], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def plain(case: Case) -> Iterator[None]:
    yield


@contextlib.contextmanager
def checkpointed(layers: list[nn.Module], segments: int, stored: int) -> Iterator[None]:
    """Segments of equal length under `checkpoint`, but for the last `stored` ones.

    As checkpoint_sequential with one stored; that one takes Sequential models alone.
    """
    size = len(layers) // segments
    originals = {layer: layer.forward for layer in layers}

    def of_segment(segment: list[nn.Module]) -> Callable[..., Any]:
        def run(value: Any, *args: Any, **kwargs: Any) -> Any:
            for layer in segment:
                value = originals[layer](value, *args, **kwargs)
            return value

        return lambda value, *args, **kwargs: checkpoint(
            run, value, *args, use_reentrant=False, **kwargs
        )

    for number in range(segments - stored):
        first, *others = layers[number * size : (number + 1) * size]
        first.forward = of_segment([first, *others])
        for layer in others:
            layer.forward = lambda value, *args, **kwargs: value
    try:
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


@contextlib.contextmanager
def memory_budget(case: Case, part: float) -> Iterator[None]:
    """torch.compile of the whole model, which keeps `part` of what it would keep by itself."""
    import torch._functorch.config as config

    with config.patch(activation_memory_budget=part):
        case.call = torch.compile(case.model)
        try:
            case.step()  # compiles
            yield
        finally:
            case.call = case.model


def peers_of(case: Case, compiled: bool) -> Iterator[tuple[str, Peer]]:
    if compiled:
        for part in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0):
            yield (
                f"`activation_memory_budget` {part}",
                lambda case, part=part: memory_budget(case, part),
            )
        return
    yield "plain", plain
    length = len(case.layers)
    for count in range(2, length + 1):
        yield (
            f"`checkpoint_sequential`, {count} segments",
            lambda case, count=count: checkpointed(case.layers, count, 1),
        )
    yield (
        "`checkpoint` on every layer",
        lambda case: checkpointed(case.layers, length, 0),
    )


def fit_to(case: Case, peak: int) -> int:
    """Fits the case so that its measured peak is at most this; returns that peak."""
    budget = peak
    while True:
        fitted = stowage.fit(
            case.model, case.sample, activations=budget, loss=loss_of, verbose=False
        )
        measured = fitted.measured_peak_bytes or 0
        if measured <= peak:
            return measured
        budget -= measured - peak


def compare(
    case: Case, peer: Peer, rounds: int, compiled: bool
) -> tuple[int, float, int | None, float]:
    """Peak and seconds of the peer, then of Stowage within that peak; None: no schedule fits."""
    twin = case.twin()
    if compiled:
        for layer in twin.layers:
            layer.compile()
    with peer(case):
        peak = case.peak()
        try:
            own_peak: int = fit_to(twin, peak)
            reached = True
        except stowage.InfeasibleError:
            own_peak, reached = 0, False
        times: tuple[list[float], list[float]] = ([], [])
        with unchanged(case.model), unchanged(twin.model):
            for _ in range(rounds):
                times[0].append(case.step())
                if reached:
                    times[1].append(twin.step())
    stowage.unfit(twin.model)
    of_twin = statistics.median(times[1]) if reached else 0.0
    return peak, statistics.median(times[0]), own_peak if reached else None, of_twin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--compiled", action="store_true", help="against torch.compile alone")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.model or MODELS:
        torch.manual_seed(0)
        case = MODELS[name]()
        case.model.train()
        print(f"\n{name}, peak in MiB, step in ms\n")
        print("| | peak | step | Stowage: peak | step | ratio |\n|---|---|---|---|---|---|")
        for label, peer in peers_of(case, options.compiled):
            peak, of_peer, own_peak, own = compare(case, peer, options.rounds, options.compiled)
            figures = f"| {label} | {peak / 2**20:.1f} | {of_peer * 1e3:.0f} |"
            if own_peak is None:
                print(f"{figures} no schedule | | |", flush=True)
            else:
                print(
                    f"{figures} {own_peak / 2**20:.1f} | {own * 1e3:.0f} | {own / of_peer:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
