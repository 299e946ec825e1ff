"""Small models of torchvision, timm and transformers, with random weights, and steps of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import timm
import torch
import torchvision
import transformers
from device import DEVICE, generator
from torch import Tensor, nn

_IDS = 200


@dataclass(frozen=True)
class Example:
    model: nn.Module
    sample: Any

    def fresh(self) -> Example:
        """The same with a model of its own, as it was made."""
        return Example(copy.deepcopy(self.model), self.sample)

    def forward(self) -> Any:
        if isinstance(self.sample, Mapping):
            return self.model(**self.sample)
        if isinstance(self.sample, tuple):
            return self.model(*self.sample)
        return self.model(self.sample)


def loss_of(output: Any) -> Tensor:
    if isinstance(output, Mapping):
        return output["loss"]
    return output.float().square().mean()


def _images(size: int = 48) -> Tensor:
    return torch.randn(2, 3, size, size, generator=generator(3))


def _tokens(**more: Any) -> dict[str, Any]:
    ids = torch.randint(0, _IDS, (2, 48), generator=generator(4))
    return {"input_ids": ids, "labels": ids, **more}


def resnet50() -> Example:
    return Example(torchvision.models.resnet50(), _images())


def densenet121() -> Example:
    return Example(torchvision.models.densenet121(drop_rate=0.1), _images())


def vit() -> Example:
    model = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=32,
        depth=6,
        embed_dim=48,
        drop_rate=0.1,
        proj_drop_rate=0.1,
        attn_drop_rate=0.1,
        drop_path_rate=0.1,
    )
    return Example(model, _images(32))


def gpt2() -> Example:
    config = transformers.GPT2Config(
        n_layer=5, n_embd=32, n_head=4, vocab_size=_IDS, n_positions=64, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return Example(transformers.GPT2LMHeadModel(config), _tokens())


def llama() -> Example:
    config = transformers.LlamaConfig(
        num_hidden_layers=5, hidden_size=32, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=_IDS, use_cache=False, attention_dropout=0.1,
    )  # fmt: skip
    return Example(transformers.LlamaForCausalLM(config), _tokens())


def gemma2() -> Example:
    """Its layers get two masks in turn: of a window, and of all tokens before."""
    config = transformers.Gemma2Config(
        num_hidden_layers=5, hidden_size=32, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, vocab_size=_IDS, sliding_window=8, use_cache=False,
        attn_implementation="eager",
    )  # fmt: skip
    return Example(transformers.Gemma2ForCausalLM(config), _tokens())


def bert() -> Example:
    config = transformers.BertConfig(
        num_hidden_layers=5, hidden_size=32, intermediate_size=64, num_attention_heads=4,
        vocab_size=_IDS,
    )  # fmt: skip
    mask = torch.ones(2, 48, dtype=torch.long)
    mask[1, 12:] = 0
    return Example(transformers.BertForMaskedLM(config), _tokens(attention_mask=mask))


def t5() -> Example:
    config = transformers.T5Config(
        num_layers=4, d_model=32, d_ff=64, num_heads=4, d_kv=8, vocab_size=_IDS, use_cache=False,
        decoder_start_token_id=0,
    )  # fmt: skip
    return Example(transformers.T5ForConditionalGeneration(config), _tokens())


MODELS: dict[str, Callable[[], Example]] = {
    make.__name__: make for make in (resnet50, densenet121, vit, gpt2, llama, gemma2, bert, t5)
}


class Block(nn.Module):
    """A residual layer with all that a recomputation has to repeat."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.2)

    def forward(self, value: Tensor) -> Tensor:
        grown = nn.functional.gelu(self.norm(self.linear(value)))
        return value + self.dropout(grown)


def blocks(length: int = 8, width: int = 16) -> Example:
    model = nn.Sequential(*(Block(width) for _ in range(length)), nn.Linear(width, 3))
    return Example(model, torch.randn(8, width, generator=generator(5)))


def make(name: str) -> Example:
    torch.manual_seed(0)
    example = MODELS[name]() if name != "blocks" else blocks()
    example.model.train()
    return example


@dataclass
class Trained:
    """All that training leaves: losses, and tensors by name."""

    losses: list[float]
    tensors: dict[str, Tensor]


def train(
    example: Example,
    *,
    steps: int = 3,
    micro_batches: int = 2,
    bfloat16: bool = False,
    forward: Callable[[], Any] | None = None,
    loss: Callable[[Any], Tensor] = loss_of,
) -> Trained:
    torch.manual_seed(7)
    model = example.model
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    losses = []
    tensors: dict[str, Tensor] = {}
    for step in range(steps):
        for _ in range(micro_batches):
            with torch.autocast(DEVICE.type, torch.bfloat16, enabled=bfloat16):
                value = loss((forward or example.forward)())
            value.backward()
            losses.append(value.item())
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                tensors[f"gradient {step} {name}"] = parameter.grad.clone()
        optimizer.step()
        optimizer.zero_grad()
    tensors.update((name, tensor.clone()) for name, tensor in model.state_dict().items())
    tensors["random state"] = torch.get_rng_state()
    if DEVICE.type == "cuda":
        tensors["random state there"] = torch.cuda.get_rng_state(DEVICE)
    return Trained(losses, tensors)


def differences(one: Trained, other: Trained) -> list[str]:
    """What is not equal to the bit."""
    found = [] if one.losses == other.losses else [f"losses {one.losses} {other.losses}"]
    if one.tensors.keys() != other.tensors.keys():
        found.append(f"names {one.tensors.keys() ^ other.tensors.keys()}")
    for name in one.tensors.keys() & other.tensors.keys():
        a, b = one.tensors[name], other.tensors[name]
        if not torch.equal(a.view(-1).view(torch.uint8), b.view(-1).view(torch.uint8)):
            found.append(name)
    return found
