"""What PyTorch runs otherwise on a GPU, for stand-ins that are on a CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

# Under autocast a GPU computes these in float32, a CPU as they come.
# Source: PyTorch's documentation, "CUDA Ops that can autocast to float32", and autocast_mode.h.
# fmt: off
_IN_FLOAT32 = frozenset([
    "acos", "asin", "binary_cross_entropy_with_logits", "cosh", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1",
    "group_norm", "hinge_embedding_loss", "interpolate", "kl_div", "l1_loss", "layer_norm", "log",
    "log10", "log1p", "log2", "log_softmax", "logsumexp", "margin_ranking_loss", "matrix_norm",
    "mse_loss", "nll_loss", "norm", "normalize", "pdist", "poisson_nll_loss", "pow", "prod",
    "reciprocal", "renorm", "rms_norm", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss",
    "softmax", "softmin", "softplus", "sum", "tan", "triplet_margin_loss", "upsample",
    "vector_norm",
])
# fmt: on
_HALVES = (torch.float16, torch.bfloat16)
_AUTOGRAD: Any = torch.autograd
_MOST_OF_A_HEAD = 256  # of flash attention
# Those that change all parameters at once where nobody says otherwise.
_FOREACH = (
    *(torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam),
    *(torch.optim.Adamax, torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.RMSprop),
    *(torch.optim.Rprop, torch.optim.ASGD),
)


class GpuChoices(TorchFunctionMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Around a step: attention by the kernels of a GPU, and the types of its autocast.

    Functions of torch.nn.functional that call attention, as that of nn.MultiheadAttention, do so
    where no mode sees it, so its name there is replaced, for this thread. No mode sees what a
    backward runs again, as layers under `checkpoint`, either, so it is put around that, too.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._of_torch: Callable[..., Any] = functional.scaled_dot_product_attention
        self._engine: Callable[..., Any] = _AUTOGRAD._engine_run_backward
        self._thread = threading.get_ident()

    def __enter__(self) -> Any:
        functional.scaled_dot_product_attention = self._called
        _AUTOGRAD._engine_run_backward = self._run_backward
        return super().__enter__()  # type: ignore[no-untyped-call, unused-ignore]

    def __exit__(self, *error: Any) -> Any:
        functional.scaled_dot_product_attention = self._of_torch
        _AUTOGRAD._engine_run_backward = self._engine
        return super().__exit__(*error)  # type: ignore[no-untyped-call, unused-ignore]

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != self._thread:
            return self._of_torch(*args, **kwargs)
        return _attention(*args, **kwargs)

    def _run_backward(self, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != self._thread:
            return self._engine(*args, **kwargs)
        super().__enter__()  # type: ignore[no-untyped-call, unused-ignore]
        try:
            return self._engine(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)  # type: ignore[no-untyped-call, unused-ignore]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is self._of_torch:
            return _attention(*args, **kwargs)
        if func is functional.dropout or func is torch.dropout:
            return _dropout(func, *args, **kwargs)
        name = getattr(func, "__name__", "").removeprefix("linalg_")
        if name in _IN_FLOAT32 and torch.is_autocast_enabled("cpu"):
            args = tuple(map(_widened, args))
            kwargs = {key: _widened(value) for key, value in kwargs.items()}
        return func(*args, **kwargs)


def as_on_a_gpu(optimizer: torch.optim.Optimizer) -> None:
    """Has it change all parameters at once, where that is the default there."""
    if type(optimizer) not in _FOREACH:
        return
    for group in optimizer.param_groups:
        is_open = group.get("foreach", False) is None and not group.get("fused")
        is_plain = not group.get("differentiable") and not isinstance(group.get("lr"), Tensor)
        if is_open and is_plain:
            group["foreach"] = True


def _dropout(
    func: Any,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    train: bool = True,  # its name in torch.dropout
) -> Any:
    """By the kernel that keeps a mask of one byte an element."""
    if not (training and train) or inplace or not 0 < p < 1:
        return func(input, p, training and train, *([True] if inplace else []))
    return torch.native_dropout(input, p, True)[0]


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
    if _can_be_flash(query, value, attn_mask):
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if _can_be_efficient(query, key, value):
        needs_gradient = any(part.requires_grad for part in (query, key, value))
        bias = _bias_of(attn_mask, query, key)
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, needs_gradient, dropout_p, is_causal, scale=scale
        )[0]
    return torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def _can_be_flash(query: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    return (
        query.ndim == 4
        and mask is None
        and query.dtype in _HALVES
        and query.shape[-1] == value.shape[-1] <= _MOST_OF_A_HEAD
    )


def _flash(
    query: Tensor, key: Tensor, value: Tensor, dropout: float, is_causal: bool, scale: float | None
) -> Any:
    head = query.shape[-1]
    more = -head % 8
    if more:  # padded copies are kept
        query, key, value = (functional.pad(part, (0, more)) for part in (query, key, value))
    found = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, dropout, is_causal, scale=scale
    )[0]
    return found[..., :head] if more else found


def _can_be_efficient(query: Tensor, key: Tensor, value: Tensor) -> bool:
    if query.ndim != 4 or query.shape[1] != key.shape[1]:  # heads that share keys
        return False
    multiple = 8 if query.dtype in _HALVES else 4
    heads = (query.shape[-1], value.shape[-1])
    return query.dtype is not torch.float64 and all(head % multiple == 0 for head in heads)


def _bias_of(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """What is added to the products. A mask of booleans is made one of numbers."""
    if mask is None:
        return None
    if mask.dtype is torch.bool:
        bias = torch.zeros(mask.shape, dtype=query.dtype)
        mask = bias.masked_fill_(mask.logical_not(), float("-inf"))
    return mask.expand(*query.shape[:2], query.shape[-2], key.shape[-2])
