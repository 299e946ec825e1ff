"""The exceptions of the package."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

import stowage
from stowage import FieldViolation, StowageError, errors

ALL = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, StowageError)
]


def test_each_error_is_public():
    assert len(ALL) > 15
    for error in ALL:
        assert error.__name__ in stowage.__all__
        assert getattr(stowage, error.__name__) is error


# What their constructors take beside a message.
MORE: dict[str, tuple[Any, ...]] = {
    "BusyError": (1.5,),
    "InfeasibleError": (12,),
    "InvalidRequestError": ((FieldViolation("chain", "is wrong"), FieldViolation("x", "too")),),
}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_processes_and_copies_get_the_whole_error(kind):
    error = kind("a message", *MORE.get(kind.__name__, ()))
    error.rank = 3
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert str(other) == "a message"
        assert vars(other) == vars(error)
