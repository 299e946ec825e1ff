"""Small models of transformers, timm, torchvision and diffusers, of many structures, with random
weights: one chain of layers, several, stages of blocks, skips, layers that are called many times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffusers
import timm
import torch
import torchvision
import transformers
from device import generator
from models import Example
from torch import Tensor, nn

# A model, and what it is called with.
Made = tuple[nn.Module, Any]

_WORDS = 256
_WIDTH = {"hidden_size": 64, "num_attention_heads": 4}
_TEXT = {**_WIDTH, "vocab_size": _WORDS, "intermediate_size": 128}
_TWO_STACKS = {
    **{"d_model": 64, "encoder_layers": 4, "decoder_layers": 4},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    **{"encoder_ffn_dim": 128, "decoder_ffn_dim": 128},
}


def make(name: str) -> Example:
    torch.manual_seed(0)
    example = Example(*ZOO[name]())
    example.model.train()
    return example


def _words(*shape: int) -> Tensor:
    return torch.randint(1, _WORDS, shape, generator=generator(1))


def _numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=generator(2))


def _classes(count: int, *shape: int) -> Tensor:
    return torch.randint(0, count, shape, generator=generator(3))


def _sentences() -> dict[str, Tensor]:
    words = _words(4, 64)
    return {"input_ids": words, "labels": words}


def gpt2() -> Made:
    config = transformers.GPT2Config(
        vocab_size=_WORDS, n_positions=64, n_embd=64, n_layer=6, n_head=4,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config), _sentences()


def half_frozen_gpt2() -> Made:
    model, sample = gpt2()
    transformer = model.transformer
    for module in (transformer.wte, transformer.wpe, *transformer.h[:3]):
        module.requires_grad_(False)
    return model, sample


def llama() -> Made:
    config = transformers.LlamaConfig(**_TEXT, num_hidden_layers=6, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config), _sentences()


def mixtral() -> Made:
    config = transformers.MixtralConfig(
        **_TEXT, num_hidden_layers=4, num_key_value_heads=2, num_local_experts=4
    )
    return transformers.MixtralForCausalLM(config), _sentences()


def opt() -> Made:
    """With LayerDrop, by which a step skips layers."""
    config = transformers.OPTConfig(
        vocab_size=_WORDS, hidden_size=64, ffn_dim=128, num_hidden_layers=6, num_attention_heads=4,
        max_position_embeddings=128, word_embed_proj_dim=64, layerdrop=0.3,
    )  # fmt: skip
    return transformers.OPTForCausalLM(config), _sentences()


def mamba() -> Made:
    config = transformers.MambaConfig(
        vocab_size=_WORDS, hidden_size=64, num_hidden_layers=4, state_size=8
    )
    words = _words(2, 32)
    return transformers.MambaForCausalLM(config), {"input_ids": words, "labels": words}


def bert() -> Made:
    config = transformers.BertConfig(**_TEXT, num_hidden_layers=6)
    return transformers.BertForMaskedLM(config), _sentences()


def albert() -> Made:
    """One layer, called six times."""
    config = transformers.AlbertConfig(**_TEXT, embedding_size=32, num_hidden_layers=6)
    return transformers.AlbertForMaskedLM(config), _sentences()


def deberta() -> Made:
    config = transformers.DebertaV2Config(
        **_TEXT, num_hidden_layers=4, relative_attention=True, position_buckets=32,
        max_position_embeddings=128,
    )  # fmt: skip
    return transformers.DebertaV2ForMaskedLM(config), _sentences()


def t5() -> Made:
    config = transformers.T5Config(
        vocab_size=_WORDS, d_model=64, d_kv=16, d_ff=128, num_layers=6, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    sample = {"input_ids": _words(4, 64), "labels": _words(4, 48)}
    return transformers.T5ForConditionalGeneration(config), sample


def bart() -> Made:
    config = transformers.BartConfig(
        **_TWO_STACKS, vocab_size=_WORDS, max_position_embeddings=128, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
    )  # fmt: skip
    sample = {"input_ids": _words(4, 64), "labels": _words(4, 48)}
    return transformers.BartForConditionalGeneration(config), sample


def whisper() -> Made:
    config = transformers.WhisperConfig(
        **_TWO_STACKS, vocab_size=_WORDS, num_mel_bins=20, max_source_positions=64,
        max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1,
    )  # fmt: skip
    sample = {"input_features": _numbers(4, 20, 128), "labels": _words(4, 32)}
    return transformers.WhisperForConditionalGeneration(config), sample


def wav2vec2() -> Made:
    """With LayerDrop."""
    config = transformers.Wav2Vec2Config(
        **_WIDTH, vocab_size=32, num_hidden_layers=4, intermediate_size=128, conv_dim=(32, 32, 32),
        conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4, mask_time_prob=0.0, layerdrop=0.3,
    )  # fmt: skip
    sample = {"input_values": _numbers(2, 4000), "labels": 1 + _classes(30, 2, 10)}
    return transformers.Wav2Vec2ForCTC(config), sample


def clip() -> Made:
    """Two towers."""
    layers = {**_WIDTH, "intermediate_size": 128, "num_hidden_layers": 4}
    text = {"vocab_size": _WORDS, "max_position_embeddings": 32, "eos_token_id": 255}
    config = transformers.CLIPConfig(
        text_config={**layers, **text, "bos_token_id": 254, "pad_token_id": 0},
        vision_config={**layers, "image_size": 32, "patch_size": 4},
        projection_dim=32,
    )
    images = {"pixel_values": _numbers(4, 3, 32, 32), "return_loss": True}
    return transformers.CLIPModel(config), {"input_ids": _words(4, 32), **images}


def vit() -> Made:
    config = transformers.ViTConfig(
        **_WIDTH, num_hidden_layers=6, intermediate_size=128, image_size=32, patch_size=4
    )
    sample = {"pixel_values": _numbers(4, 3, 32, 32), "labels": _classes(2, 4)}
    return transformers.ViTForImageClassification(config), sample


def swin() -> Made:
    config = transformers.SwinConfig(
        image_size=64, patch_size=4, embed_dim=24, depths=[2, 2, 4, 2], num_heads=[2, 2, 4, 4],
        window_size=2,
    )  # fmt: skip
    sample = {"pixel_values": _numbers(4, 3, 64, 64), "labels": _classes(2, 4)}
    return transformers.SwinForImageClassification(config), sample


def segformer() -> Made:
    config = transformers.SegformerConfig(
        depths=[2, 2, 2, 2], hidden_sizes=[16, 32, 48, 64], decoder_hidden_size=32, num_labels=5
    )
    sample = {"pixel_values": _numbers(2, 3, 64, 64), "labels": _classes(5, 2, 64, 64)}
    return transformers.SegformerForSemanticSegmentation(config), sample


def convnext() -> Made:
    config = transformers.ConvNextConfig(depths=[2, 2, 4, 2], hidden_sizes=[16, 32, 48, 64])
    sample = {"pixel_values": _numbers(4, 3, 64, 64), "labels": _classes(2, 4)}
    return transformers.ConvNextForImageClassification(config), sample


def detr() -> Made:
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
        out_features=["stage4"],
    )  # fmt: skip
    config = transformers.DetrConfig(
        **_TWO_STACKS, use_timm_backbone=False, use_pretrained_backbone=False,
        backbone_config=backbone, num_queries=10,
    )  # fmt: skip
    return transformers.DetrModel(config), {"pixel_values": _numbers(2, 3, 256, 256)}


def efficientnet() -> Made:
    return timm.create_model("efficientnet_b0", num_classes=10), _numbers(2, 3, 64, 64)


def regnety() -> Made:
    return timm.create_model("regnety_004", num_classes=10), _numbers(2, 3, 64, 64)


def mobilenet() -> Made:
    return timm.create_model("mobilenetv3_small_100", num_classes=10), _numbers(2, 3, 64, 64)


def mixer() -> Made:
    model = timm.create_model("mixer_s32_224", num_classes=10, img_size=128)
    return model, _numbers(8, 3, 128, 128)


def resnet() -> Made:
    return torchvision.models.resnet18(num_classes=10), _numbers(2, 3, 64, 64)


def densenet() -> Made:
    return torchvision.models.densenet121(num_classes=10), _numbers(2, 3, 64, 64)


def googlenet() -> Made:
    model = torchvision.models.googlenet(num_classes=10, init_weights=False, aux_logits=False)
    return model, _numbers(2, 3, 64, 64)


def swin3d() -> Made:
    return torchvision.models.video.swin3d_t(num_classes=10), _numbers(1, 3, 4, 64, 64)


def unet() -> Made:
    model = diffusers.UNet2DModel(
        sample_size=32, block_out_channels=(32, 64), layers_per_block=2, norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return model, (_numbers(2, 3, 32, 32), torch.tensor([3, 5]))


def unet_with_text() -> Made:
    model = diffusers.UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32, attention_head_dim=8,
    )  # fmt: skip
    return model, (_numbers(2, 4, 16, 16), torch.tensor([3, 5]), _numbers(2, 8, 32))


def sd3() -> Made:
    model = diffusers.SD3Transformer2DModel(
        sample_size=16, patch_size=2, in_channels=4, num_layers=4, attention_head_dim=16,
        num_attention_heads=4, joint_attention_dim=64, caption_projection_dim=64,
        pooled_projection_dim=32, out_channels=4, pos_embed_max_size=16,
    )  # fmt: skip
    return model, {
        "hidden_states": _numbers(2, 4, 16, 16),
        "encoder_hidden_states": _numbers(2, 12, 64),
        "pooled_projections": _numbers(2, 32),
        "timestep": torch.tensor([3, 5]),
    }


ZOO: dict[str, Callable[[], Made]] = {
    made.__name__: made
    for made in (
        *(gpt2, half_frozen_gpt2, llama, mixtral, opt, mamba, bert, albert, deberta, t5, bart),
        *(whisper, wav2vec2, clip, vit, swin, segformer, convnext, detr, efficientnet, regnety),
        *(mobilenet, mixer, resnet, densenet, googlenet, swin3d, unet, unet_with_text, sd3),
    )
}
