from __future__ import annotations

from collections.abc import Iterator

import device  # noqa: F401  # which sets where tensors are made
import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    # The order of sums is then the same in every run, and tests run beside one another.
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def each_measured_once() -> Iterator[None]:
    # Then the number of steps is the same in every run, too.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stowage.torch.measuring.workload._ENOUGH_SECONDS", 0.0)
        yield
