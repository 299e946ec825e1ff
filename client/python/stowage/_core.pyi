"""Solvers and simulator. Requests and answers are dicts with the API's field names; public
functions are in stowage.local.
"""

from collections.abc import Callable
from typing import Any

def solve(
    request: dict[str, Any],
    *,
    working_bytes: int,
    timeout_seconds: float | None = None,
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[str, float], object] | None = None,
    improved: Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]: ...
def frontier(
    request: dict[str, Any],
    *,
    working_bytes: int,
    timeout_seconds: float | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> dict[str, Any]: ...
def simulate(
    request: dict[str, Any], *, cancelled: Callable[[], bool] | None = None
) -> dict[str, Any]: ...
def export(
    request: dict[str, Any],
    target: str,
    layers: str,
    *,
    working_bytes: int,
    cancelled: Callable[[], bool] | None = None,
) -> dict[str, Any]: ...
def export_targets() -> list[dict[str, str]]: ...
def solvers() -> list[dict[str, Any]]: ...
def budget(text: str, chain: dict[str, Any], field: str) -> int: ...
def parse_bytes(text: str, field: str) -> int: ...
def format_bytes(bytes: int) -> str: ...
def format_seconds(seconds: float) -> str: ...
def memory_range(chain: dict[str, Any]) -> tuple[int, int]: ...
def choose_kept(
    operators: list[dict[str, Any]], most_bytes: int, count: int
) -> list[tuple[str, set[int], float]]: ...
def fnv1a(bytes: bytes) -> int: ...
def plan_difference(
    made_for: dict[str, Any], now: dict[str, Any], answer: dict[str, Any]
) -> str: ...
def reuse(
    request: dict[str, Any], answer: dict[str, Any], exactly: bool
) -> dict[str, Any] | None: ...
