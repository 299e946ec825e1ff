from __future__ import annotations

import device  # noqa: F401  # which sets where tensors are made
import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    # The order of sums is then the same in every run, and tests run beside one another.
    torch.set_num_threads(1)
