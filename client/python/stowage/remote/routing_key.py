"""The key by which a balancer sends equal requests of different jobs to one server: the rules of
client/lib/rpc/routing_key.h.
"""

from __future__ import annotations

from typing import Any

from stowage import native

HEADER = "x-stowage-key"
"""The metadata of a call. Servers do not read it."""

KEYED_METHODS = frozenset({"Solve", "SolveStream", "Frontier"})


def routing_key(request: Any) -> str:
    """16 hexadecimal digits: a hash of what changes the answer, without names.

    Args:
        request: The message of one of `KEYED_METHODS`.
    """
    unnamed = type(request)()
    unnamed.CopyFrom(request)
    if unnamed.HasField("chain"):
        _clear_names(unnamed.chain)
    if unnamed.HasField("platform"):
        unnamed.platform.ClearField("name")
    if unnamed.solver == "auto":  # what an empty one means
        unnamed.ClearField("solver")
    if unnamed.HasField("options"):
        unnamed.options.ClearField("use_cache")
        unnamed.options.ClearField("time_budget_seconds")
    return f"{native.fnv1a(unnamed.SerializeToString()):016x}"


def _clear_names(chain: Any) -> None:
    """Without provenance there is no map, whose order in the bytes would vary."""
    chain.ClearField("name")
    chain.ClearField("provenance")
    for stage in chain.stages:
        stage.ClearField("name")
    if chain.HasField("loss"):
        chain.loss.ClearField("name")
