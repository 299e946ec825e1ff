"""The exceptions of this package. Each message says what is wrong and what helps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class StowageError(Exception):
    """Base of all errors of this package."""


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field that is wrong.

    Attributes:
        field: Its path, indices from 0: "chain.stages[17].saved_bytes".
        description: What is wrong, and what is allowed.
    """

    field: str
    description: str

    def __str__(self) -> str:
        return f"{self.field}: {self.description}"


class InvalidRequestError(StowageError, ValueError):
    """The request is wrong. `violations` has every field that is, where the error names fields.

    Attributes:
        violations: At least one.
    """

    def __init__(self, message: str, violations: Iterable[FieldViolation] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations) or (_violation_of(message),)


class InfeasibleError(StowageError, ValueError):
    """No schedule fits into the memory. `solve` returns an INFEASIBLE answer instead.

    Attributes:
        minimum_memory_bytes: The least memory that is enough; None where no memory is, or where
            it is not known.
    """

    def __init__(self, message: str, minimum_memory_bytes: int | None = None) -> None:
        super().__init__(message)
        self.minimum_memory_bytes = minimum_memory_bytes


class BudgetError(StowageError, ValueError):
    """A size that `fit` cannot read or use. Names the argument, its value and what is accepted."""


class NotAChainError(StowageError, ValueError):
    """The layers of a model are no chain. Says which is in the way, why, and what to do."""


class SolveMemoryError(StowageError, MemoryError):
    """A solve needs more memory than it may take. The message names the slots that would fit."""


class BusyError(StowageError):
    """A server's queue stayed full, or this caller sends more than it may.

    Attributes:
        retry_after_seconds: When the server says to come back.
    """

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.retry_after_seconds), self.__dict__


class DeadlineError(StowageError, TimeoutError):
    """There was no answer within the timeout. Give more time, or ask for fewer memory slots."""


class CancelledError(StowageError):
    """The caller's `cancel` event was set."""


class UnavailableError(StowageError, ConnectionError):
    """No server answered. The message has what each of them said last, and what helps."""


class UnauthenticatedError(StowageError, PermissionError):
    """A server asks for a token or a client certificate that it knows."""


class PermissionDeniedError(StowageError, PermissionError):
    """A server does not let this caller make the call."""


class UnimplementedError(StowageError, NotImplementedError):
    """The server does not have this call: it is older than this package."""


class FailedPreconditionError(StowageError):
    """What was asked for does not suit what there is now; says in what."""


class AbortedError(StowageError):
    """An operator stopped the solve."""


class DataLossError(StowageError):
    """An answer or a file cannot be read: it is damaged, or of another version."""


class InternalError(StowageError):
    """A bug of Stowage. The message says where."""


class MissingExtraError(StowageError, ImportError):
    """A library that an extra of this package installs is missing. The message names the extra."""


# The numbers of absl::StatusCode and of gRPC, which are the same.
_CLASSES: dict[int, type[StowageError]] = {
    1: CancelledError,
    4: DeadlineError,
    7: PermissionDeniedError,
    8: SolveMemoryError,
    9: FailedPreconditionError,
    10: AbortedError,
    12: UnimplementedError,
    14: UnavailableError,
    15: DataLossError,
    16: UnauthenticatedError,
}
_INVALID_ARGUMENT = 3


def from_status(code: int, message: str, fields: Iterable[tuple[str, str]] = ()) -> StowageError:
    """The exception for a status.

    Args:
        code: Of absl::StatusCode or gRPC.
        message: The status's own.
        fields: The path and the problem of each violated field.
    """
    if code == _INVALID_ARGUMENT:
        violations = [FieldViolation(field, problem) for field, problem in fields]
        return InvalidRequestError(message, violations)
    return _CLASSES.get(code, InternalError)(message)


def invalid(field: str, description: str) -> InvalidRequestError:
    """The error of one field."""
    violation = FieldViolation(field, description)
    return InvalidRequestError(str(violation), (violation,))


def _violation_of(message: str) -> FieldViolation:
    """The violation in a message of one field: "chain.loss: is wrong", "operations[2] BACKWARD 1:
    value 0 is not on device".
    """
    field, colon, description = message.partition(": ")
    if not colon:
        return FieldViolation("", message)
    if field.startswith("operations["):
        return FieldViolation(f"schedule.{field.split(' ', 1)[0]}", message)
    return FieldViolation(field, description)
