"""What PyTorch runs otherwise on a GPU, for stand-ins that are on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

# Under autocast a GPU computes these in float32, a CPU as they come.
# Source: PyTorch's documentation, "CUDA Ops that can autocast to float32".
# fmt: off
_IN_FLOAT32 = frozenset([
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "cumprod", "cumsum", "exp", "expm1", "group_norm", "kl_div", "l1_loss",
    "layer_norm", "log", "log10", "log1p", "log2", "log_softmax", "mse_loss", "nll_loss", "norm",
    "normalize", "pow", "prod", "reciprocal", "rsqrt", "smooth_l1_loss", "softmax", "softmin",
    "softplus", "sum",
])
# fmt: on
_HALVES = (torch.float16, torch.bfloat16)
_MOST_OF_A_HEAD = 256  # of flash attention


class GpuChoices(TorchFunctionMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Around a step: attention by the kernels of a GPU, and the types of its autocast."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _IN_FLOAT32 and torch.is_autocast_enabled("cpu"):
            args = tuple(map(_widened, args))
            kwargs = {key: _widened(value) for key, value in kwargs.items()}
        return func(*args, **kwargs)


def as_on_a_gpu(optimizer: torch.optim.Optimizer) -> None:
    """Has it change all parameters at once, as is the default there."""
    for group in optimizer.param_groups:
        if group.get("foreach", False) is None and not group.get("fused"):
            group["foreach"] = True


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in _HALVES else value


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if torch.is_autocast_enabled("cpu"):
        kind = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(kind), key.to(kind), value.to(kind)
    head = max(query.shape[-1], value.shape[-1])
    fits = query.ndim == 4 and query.shape[-1] == value.shape[-1]
    if fits and attn_mask is None and query.dtype in _HALVES and head <= _MOST_OF_A_HEAD:
        return torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, scale=scale
        )[0]
    if fits and not (enable_gqa and query.shape[1] != key.shape[1]):
        bias = _bias_of(attn_mask, query, key)
        needs_gradient = any(part.requires_grad for part in (query, key, value))
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, needs_gradient, dropout_p, is_causal, scale=scale
        )[0]
    return torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def _bias_of(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """What is added to the products. A mask of booleans is made one of numbers."""
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        mask = torch.where(mask, 0.0, float("-inf")).to(query.dtype)
    return mask.expand(*query.shape[:2], query.shape[-2], key.shape[-2])
