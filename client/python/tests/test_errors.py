"""The exceptions of the package."""

from __future__ import annotations

import inspect

import stowage
from stowage import StowageError, errors

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
