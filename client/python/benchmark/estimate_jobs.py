"""The jobs of estimates.py: none is a model that the tests train, and none was chosen by result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "AdamW": torch.optim.AdamW,
    "SGD": lambda parameters: torch.optim.SGD(parameters, momentum=0.9),
    "Adagrad": torch.optim.Adagrad,
}


@dataclass(frozen=True, slots=True)
class Job:
    """A step of training.

    Attributes:
        make: What makes the model, without what spreads it over ranks.
        sample: What makes a rank's sample.
        optimizer: Of `OPTIMIZERS`.
        autocast: Whether forward and loss run in bfloat16.
        accumulation: Forwards and backwards before the optimizer's step.
        ranks: Processes; with more than one `layers` says how.
        layers: What finds the modules that FSDP2 shards one by one; None: DDP.
    """

    make: Callable[[], nn.Module]
    sample: Callable[[], Any]
    optimizer: str = "AdamW"
    autocast: bool = False
    accumulation: int = 1
    ranks: int = 1
    layers: Callable[[Any], Any] | None = None

    def spread(self) -> nn.Module:
        """The model as a rank trains it."""
        model = self.make().train()
        if self.ranks == 1:
            return model
        if self.layers is None:
            # gloo's threads would free what is sent here when they come to it.
            return nn.parallel.DistributedDataParallel(model, init_sync=False)
        for layer in self.layers(model):
            torch.distributed.fsdp.fully_shard(layer)
        return torch.distributed.fsdp.fully_shard(model)


# --- Language models --------------------------------------------------------------------------

_WORDS = 4096
_TEXT = {
    **{"vocab_size": _WORDS, "hidden_size": 256, "intermediate_size": 704},
    **{"num_hidden_layers": 6, "num_attention_heads": 8, "max_position_embeddings": 512},
}
_KEYS = {"num_key_value_heads": 4}
_ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

# Those that also come as a config.json alone: architecture, configuration, batch and length.
CONFIGS: dict[str, tuple[str, transformers.PreTrainedConfig, int, int]] = {
    "GPT-NeoX": ("GPTNeoXForCausalLM", transformers.GPTNeoXConfig(**_TEXT), 4, 128),
    "Qwen2": ("Qwen2ForCausalLM", transformers.Qwen2Config(**_TEXT, **_KEYS), 4, 256),
    "Gemma": ("GemmaForCausalLM", transformers.GemmaConfig(**_TEXT, **_KEYS, head_dim=32), 2, 256),
    "RoBERTa": ("RobertaForMaskedLM", transformers.RobertaConfig(**_TEXT), 6, 192),
    "DistilBERT": (
        "DistilBertForMaskedLM",
        transformers.DistilBertConfig(
            vocab_size=_WORDS, dim=320, hidden_dim=1280, n_layers=4, n_heads=8
        ),
        *(8, 160),
    ),
    "Bloom": (
        "BloomForCausalLM",
        transformers.BloomConfig(vocab_size=_WORDS, hidden_size=384, n_layer=5, n_head=6),
        *(2, 384),
    ),
}


def words(batch: int, length: int) -> dict[str, Tensor]:
    ids = torch.randint(3, _WORDS, (batch, length))
    return {"input_ids": ids, "labels": ids}


def _of_config(name: str, **how: Any) -> Job:
    architecture, config, batch, length = CONFIGS[name]
    config.use_cache = False
    return Job(
        lambda: getattr(transformers, architecture)(config), lambda: words(batch, length), **how
    )


def _language(kind: str, config: Any, batch: int, length: int, **how: Any) -> Job:
    config.use_cache = False
    make = getattr(transformers, f"{kind}ForCausalLM")
    return Job(lambda: make(config), lambda: words(batch, length), **how)


def _pegasus() -> Job:
    config = transformers.PegasusConfig(
        vocab_size=_WORDS, d_model=256, encoder_layers=3, decoder_layers=3, encoder_ffn_dim=1024,
        decoder_ffn_dim=1024, encoder_attention_heads=8, decoder_attention_heads=8,
        max_position_embeddings=512, use_cache=False,
    )  # fmt: skip
    return Job(
        lambda: transformers.PegasusForConditionalGeneration(config),
        lambda: words(4, 192),
        autocast=True,
    )


# --- Images -----------------------------------------------------------------------------------


def _pixels(kind: str, config: Any, batch: int, **how: Any) -> Job:
    def sample() -> dict[str, Tensor]:
        size = config.image_size
        images = torch.randn(batch, 3, size, size)
        return {"pixel_values": images, "labels": torch.zeros(batch, dtype=torch.long)}

    make = getattr(transformers, f"{kind}ForImageClassification")
    return Job(lambda: make(config), sample, **how)


def _images(make: Callable[[], nn.Module], *shape: int, **how: Any) -> Job:
    return Job(make, lambda: torch.randn(shape), **how)


# --- Own models -------------------------------------------------------------------------------


class UNet(nn.Module):
    """Convolutions down to an eighth and up again, with skips."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(w, 2 * w, 3, 2, 1), nn.BatchNorm2d(2 * w), nn.ReLU())
            for w in widths
        )
        self.up = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(2 * w, w, 2, 2), nn.GroupNorm(4, w), nn.SiLU())
            for w in reversed(widths)
        )
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, image: Tensor) -> Tensor:
        value, skips = self.first(image), []
        for down in self.down:
            skips.append(value)
            value = down(value)
        for up in self.up:
            value = up(value) + skips.pop()
        return self.last(value)


class Recurrent(nn.Module):
    """A GRU of two layers over words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_WORDS, 128)
        self.layers = nn.GRU(128, 192, num_layers=2, batch_first=True)
        self.head = nn.Linear(192, _WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        value, _ = self.layers(self.embedding(ids))
        return self.head(value)


class Tagger(nn.Module):
    """PyTorch's own encoder, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(192, 6, 768, batch_first=True)
        self.embedding = nn.Embedding(_WORDS, 192)
        self.layers = nn.TransformerEncoder(layer, 5, enable_nested_tensor=False)
        self.head = nn.Linear(192, 64)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(ids)))


def _ids(batch: int, length: int) -> Tensor:
    return torch.randint(3, _WORDS, (batch, length))


# --- All of them ------------------------------------------------------------------------------

_models, _text = torchvision.models, {**_TEXT, **_KEYS}

JOBS: dict[str, Job] = {
    "GPT-NeoX": _of_config("GPT-NeoX"),
    "Qwen2": _of_config("Qwen2", autocast=True),
    "Gemma": _of_config("Gemma", optimizer="SGD"),
    "RoBERTa": _of_config("RoBERTa", optimizer="SGD", autocast=True),
    "DistilBERT": _of_config("DistilBERT"),
    "Bloom": _of_config("Bloom"),
    "Phi": _language(
        "Phi", transformers.PhiConfig(**_TEXT), 3, 256, optimizer="Adagrad", autocast=True
    ),
    "Pegasus": _pegasus(),
    "DeiT": _pixels(
        "DeiT",
        transformers.DeiTConfig(
            hidden_size=192,
            num_hidden_layers=8,
            num_attention_heads=3,
            intermediate_size=768,
            image_size=96,
            patch_size=8,
        ),
        *(8,),
        optimizer="SGD",
    ),
    "DINOv2": _pixels(
        "Dinov2",
        transformers.Dinov2Config(
            hidden_size=192,
            num_hidden_layers=8,
            num_attention_heads=3,
            image_size=112,
            patch_size=14,
        ),
        *(8,),
        autocast=True,
    ),
    "SqueezeNet": _images(
        lambda: _models.squeezenet1_1(num_classes=10), 8, 3, 160, 160, optimizer="SGD"
    ),
    "ShuffleNet": _images(lambda: _models.shufflenet_v2_x1_0(num_classes=10), 8, 3, 96, 96),
    "ResNeXt-50": _images(
        *(lambda: _models.resnext50_32x4d(num_classes=10), 4, 3, 96, 96),
        optimizer="SGD",
        autocast=True,
    ),
    "MC3-18": _images(
        *(lambda: _models.video.mc3_18(num_classes=10), 2, 3, 8, 48, 48), optimizer="Adagrad"
    ),
    "PoolFormer": _images(
        *(lambda: timm.create_model("poolformer_s12", num_classes=10), 4, 3, 96, 96), autocast=True
    ),
    "U-Net": _images(UNet, 8, 3, 96, 96),
    "GRU": Job(Recurrent, lambda: _ids(16, 64)),
    "Tagger": Job(Tagger, lambda: _ids(8, 128), optimizer="Adagrad", autocast=True),
    "OLMo, 4 batches a step": _language(
        "Olmo", transformers.OlmoConfig(**_text), 2, 128, accumulation=4
    ),
    "MNASNet, 2 batches a step": _images(
        *(lambda: _models.mnasnet1_0(num_classes=10), 8, 3, 96, 96),
        optimizer="SGD",
        autocast=True,
        accumulation=2,
    ),
    "StableLM, DDP of 2": _language(
        "StableLm", transformers.StableLmConfig(**_text), 2, 128, ranks=2
    ),
    "ResMLP, DDP of 2": _images(
        *(lambda: timm.create_model("resmlp_12_224", num_classes=10, img_size=96), 8, 3, 96, 96),
        optimizer="SGD",
        autocast=True,
        ranks=2,
    ),
    "Qwen3, FSDP2 of 2": _language(
        *("Qwen3", transformers.Qwen3Config(**_text, head_dim=32), 2, 128),
        ranks=2,
        layers=lambda model: model.model.layers,
    ),
    "ViT, FSDP2 of 4": _images(
        *(lambda: timm.create_model("vit_tiny_patch16_224", num_classes=10), 2, 3, 224, 224),
        autocast=True,
        ranks=4,
        layers=lambda model: model.blocks,
    ),
}
