"""Biases of linear layers, which PyTorch adds to what a product has made, in its place.

To stand-ins, as to all subclasses of tensors, it adds them in new memory where the input is not
contiguous. Source: aten/src/ATen/native/Linear.cpp of PyTorch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from stowage.estimates.ranks import replaced


@contextlib.contextmanager
def biases_in_place() -> Iterator[None]:
    """Inside, `functional.linear` does so with stand-ins, too; with other tensors it is as ever."""
    linear: Any = functional.linear

    def linear_in_place(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        is_one_kernel = input.dim() < 3 or input.is_contiguous()
        if bias is None or is_one_kernel or not isinstance(input, FakeTensor):
            return linear(input, weight, bias)
        return torch.matmul(input, weight.t()).add_(bias)

    with replaced(functional, linear=linear_in_place):
        yield
