"""The device that the tests train on: a CPU, or what STOWAGE_TEST_DEVICE names, such as cuda.

On a GPU models and tensors are made there by default, and kernels are those that repeat to the bit.
"""

from __future__ import annotations

import os

# Read when CUDA's libraries start.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

DEVICE = torch.device(os.environ.get("STOWAGE_TEST_DEVICE", "cpu"))
if DEVICE.type == "cuda":
    DEVICE = torch.device("cuda", DEVICE.index or 0)
    torch.set_default_device(DEVICE)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False


def generator(seed: int) -> torch.Generator:
    return torch.Generator(DEVICE).manual_seed(seed)
