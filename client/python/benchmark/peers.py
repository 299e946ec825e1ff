"""Step times of Stowage and of what PyTorch has, each at the same measured peak of activations.

usage: peers.py [--model NAME] [--compiled] [--rounds N] [--threads N]

Prints a table in Markdown for each model. A peer's peak is measured first; then copies of the
model are fitted to that peak, one of them with plans of whole layers, and all are timed in turn,
round by round, so that a change of the machine's speed meets all. Ratios are medians over the
rounds of those within a round; times, on one thread, are those of its processor. The first row is
plain training against a copy that was fitted to plain training's own peak and so runs as it did:
its ratio is the noise. Last come how far off predicted steps and peaks were, on average.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torchvision
import transformers
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import stowage
from stowage.torch.measuring.model_state import unchanged
from stowage.torch.measuring.workload import Workload, metered_step
from stowage.torch.policies import POLICIES

CPU = torch.device("cpu")


@dataclass
class Case:
    """A model that trains on one sample; `call` is the model, or what torch.compile made of it."""

    model: nn.Module
    sample: Any
    layers: list[nn.Module]
    call: Callable[..., Any]
    in_segments: bool = True  # whether a layer takes what the one before returns

    def forward(self) -> Any:
        return self.call(**self.sample) if isinstance(self.sample, dict) else self.call(self.sample)

    def twin(self) -> Case:
        model, layers = copy.deepcopy((self.model, self.layers))
        return Case(model, self.sample, layers, model, self.in_segments)

    def step(self) -> float:
        """Its seconds."""
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        begin = clock()
        torch.autograd.backward([loss_of(self.forward())])
        return clock() - begin

    def peak(self) -> int:
        with unchanged(self.model):
            self.step()
            return metered_step(Workload(self.forward, loss_of, CPU)).peak


def loss_of(output: Any) -> torch.Tensor:
    if isinstance(output, dict) and "loss" in output:
        return output["loss"]
    tensor = output["last_hidden_state"] if isinstance(output, dict) else output
    return tensor.float().square().mean()


def resnet50() -> Case:
    model = torchvision.models.resnet50()
    layers = [
        block for name in ("layer1", "layer2", "layer3", "layer4") for block in getattr(model, name)
    ]
    return Case(model, torch.randn(4, 3, 96, 96), layers, model)


def gpt2() -> Case:
    config = transformers.GPT2Config(
        n_layer=8, n_embd=256, n_head=8, vocab_size=1000, n_positions=256, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    ids = torch.randint(0, 1000, (2, 256))
    model = transformers.GPT2LMHeadModel(config)
    return Case(model, {"input_ids": ids, "labels": ids}, list(model.transformer.h), model)


def llama() -> Case:
    config = transformers.LlamaConfig(
        num_hidden_layers=8, hidden_size=256, intermediate_size=688, num_attention_heads=8,
        num_key_value_heads=4, vocab_size=1000, use_cache=False,
    )  # fmt: skip
    ids = torch.randint(0, 1000, (2, 256))
    model = transformers.LlamaForCausalLM(config)
    return Case(model, {"input_ids": ids, "labels": ids}, list(model.model.layers), model)


def bert() -> Case:
    config = transformers.BertConfig(
        num_hidden_layers=8, hidden_size=256, intermediate_size=1024, num_attention_heads=8,
        vocab_size=1000, max_position_embeddings=256,
    )  # fmt: skip
    ids = torch.randint(0, 1000, (2, 256))
    model = transformers.BertForMaskedLM(config)
    return Case(model, {"input_ids": ids, "labels": ids}, list(model.bert.encoder.layer), model)


def vit() -> Case:
    config = transformers.ViTConfig(
        num_hidden_layers=8, hidden_size=256, intermediate_size=1024, num_attention_heads=8,
        image_size=128, patch_size=8, num_labels=10,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    images, labels = torch.randn(2, 3, 128, 128), torch.randint(0, 10, (2,))
    return Case(model, {"pixel_values": images, "labels": labels}, list(model.vit.layers), model)


def mixtral() -> Case:
    config = transformers.MixtralConfig(
        num_hidden_layers=6, hidden_size=256, intermediate_size=512, num_attention_heads=8,
        num_key_value_heads=4, num_local_experts=4, vocab_size=1000, use_cache=False,
    )  # fmt: skip
    ids = torch.randint(0, 1000, (2, 256))
    model = transformers.MixtralForCausalLM(config)
    return Case(model, {"input_ids": ids, "labels": ids}, list(model.model.layers), model)


def t5() -> Case:
    config = transformers.T5Config(
        num_layers=8, d_model=256, d_kv=32, d_ff=1024, num_heads=8, vocab_size=1000,
        use_cache=False,
    )  # fmt: skip
    model = transformers.T5EncoderModel(config)
    ids = torch.randint(0, 1000, (2, 256))
    return Case(model, {"input_ids": ids}, list(model.encoder.block), model, in_segments=False)


def convnext() -> Case:
    model = torchvision.models.convnext_tiny()
    # Stages of blocks, and between them what makes images smaller.
    layers = [
        layer
        for number, part in enumerate(list(model.features)[1:], 1)
        for layer in (part if number % 2 else [part])
    ]
    return Case(model, torch.randn(4, 3, 96, 96), layers, model)


MODELS = {
    "resnet50": resnet50,
    "convnext": convnext,
    "gpt2": gpt2,
    "llama": llama,
    "bert": bert,
    "vit": vit,
    "mixtral": mixtral,
    "t5": t5,
}

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
def selective(layers: list[nn.Module], keeps: Callable[[Sequence[str]], bool]) -> Iterator[None]:
    """Each layer under `checkpoint` with a policy: of all operators called so far in the layer,
    whether the results of the last one are kept.
    """

    def contexts() -> Any:
        called: tuple[list[str], list[str]] = ([], [])

        def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            names = called[context.is_recompute]
            names.append(str(operator).split(".")[1])
            return CheckpointPolicy.MUST_SAVE if keeps(names) else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    for layer in layers:
        forward = layer.forward
        layer.forward = lambda *args, forward=forward, **kwargs: checkpoint(
            forward, *args, use_reentrant=False, context_fn=contexts, **kwargs
        )
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
        for part in (1.0, 0.75, 0.5, 0.25):
            yield (
                f"`activation_memory_budget` {part}",
                lambda case, part=part: memory_budget(case, part),
            )
        return
    yield "plain", plain
    length = len(case.layers)
    for count in (2, 4, length) if case.in_segments else ():
        yield (
            f"`checkpoint_sequential`, {count} segments",
            lambda case, count=count: checkpointed(case.layers, count, 1),
        )
    yield (
        "`checkpoint` on every layer",
        lambda case: checkpointed(case.layers, length, 0),
    )
    yield (
        "`checkpoint` on every second layer",
        lambda case: checkpointed(case.layers[::2], len(case.layers[::2]), 0),
    )
    for name, keeps in POLICIES.items():
        yield (
            f"selective: {name}",
            lambda case, keeps=keeps: selective(case.layers, keeps),
        )


def fit_to(case: Case, peak: int, by_operator: bool, plans: str) -> Any:
    """Fits the case so that its measured peak is at most this; returns what `fit` returns.

    None where no schedule fits. The directory `plans` has the profile of earlier rows.
    """
    budget = peak
    while True:
        try:
            fitted = stowage.fit(
                case.model,
                case.sample,
                activations=budget,
                loss=loss_of,
                selective=by_operator,
                plan_cache=plans,
                verbose=False,
            )
        except stowage.InfeasibleError:
            return None
        measured = fitted.measured_peak_bytes or 0
        if measured <= peak:
            return fitted
        budget -= measured - peak


@dataclass
class Row:
    """Peaks in bytes and seconds of a step, by round: the peer's, then of Stowage within that peak,
    with and without layers that are saved in part. None: no schedule fits.
    """

    fits: list[Any]  # what `fit` returned, beside the peer's None
    peaks: list[int | None]
    seconds: list[list[float]]

    def errors(self) -> Iterator[tuple[float, float]]:
        """Of predicted seconds and peaks, over measured ones."""
        for fitted, seconds in zip(self.fits, self.seconds, strict=True):
            if fitted is not None and fitted.answer is not None:
                yield (
                    fitted.predicted_seconds / statistics.median(seconds) - 1,
                    fitted.predicted_peak_bytes / fitted.measured_peak_bytes - 1,
                )

    def ratio(self, number: int) -> str:
        """Of steps to the peer's."""
        pairs = zip(self.seconds[number], self.seconds[0], strict=False)
        ratios = [own / of_peer for own, of_peer in pairs]
        return f"{statistics.median(ratios):.2f}" if ratios else ""

    def milliseconds(self, number: int) -> str:
        seconds = self.seconds[number]
        return f"{statistics.median(seconds) * 1e3:.0f}" if seconds else ""


def compare(case: Case, peer: Peer, rounds: int, compiled: bool, plans: str) -> Row:
    twins = [case.twin(), case.twin()]
    if compiled:
        for twin in twins:
            for layer in twin.layers:
                layer.compile()
    with peer(case), contextlib.ExitStack() as stack:
        peak = case.peak()
        fits = [fit_to(twin, peak, bool(by), plans) for by, twin in zip((1, 0), twins, strict=True)]
        cases = [case, *twins]
        reached = [True, *(fitted is not None for fitted in fits)]
        times: list[list[float]] = [[], [], []]
        for one in cases:
            stack.enter_context(unchanged(one.model))
        for number in range(rounds):
            # Each comes first as often as the others.
            for index in (*range(number % 3, 3), *range(number % 3)):
                if reached[index]:
                    times[index].append(cases[index].step())
    for twin in twins:
        stowage.unfit(twin.model)
    peaks = [fitted and fitted.measured_peak_bytes for fitted in fits]
    return Row([None, *fits], [peak, *peaks], times)


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
        print(f"\n{name}, peaks in MiB, steps in ms\n")
        print("| | peak | step | Stowage: peak | step | ratio | of whole layers: peak | ratio |")
        print("|---|---|---|---|---|---|---|---|")
        errors: list[tuple[float, float]] = []
        with tempfile.TemporaryDirectory() as plans:
            for label, peer in peers_of(case, options.compiled):
                row = compare(case, peer, options.rounds, options.compiled, plans)
                print_row(label, row)
                errors += row.errors()
        seconds, peaks = (statistics.mean(map(abs, each)) for each in zip(*errors, strict=True))
        print(f"\npredicted: steps off by {seconds:.1%}, peaks by {peaks:.1%}", flush=True)


def print_row(label: str, row: Row) -> None:
    cells = [label, _mib(row.peaks[0]), row.milliseconds(0)]
    cells += [_mib(row.peaks[1]), row.milliseconds(1), row.ratio(1)]
    cells += [_mib(row.peaks[2]), row.ratio(2)]
    print("| " + " | ".join(cells) + " |", flush=True)


def _mib(peak: int | None) -> str:
    return "no schedule" if peak is None else f"{peak / 2**20:.1f}"


if __name__ == "__main__":
    main()
