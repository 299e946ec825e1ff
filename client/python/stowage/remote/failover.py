"""Which of several servers a call goes to, when it is repeated, and when it is given up: the rules
of client/lib/rpc/failover.h, to which tests/data/rules/failover.json holds both. Knows no RPC.
"""

from __future__ import annotations

import enum
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stowage.errors import FieldViolation

UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED = 14, 4, 8

# With less time than this an attempt could only replace the error by a misleading one.
_MIN_ATTEMPT_SECONDS = 0.02
# Without a timeout, how long a call is repeated at servers that say when to come back.
_BUSY_SECONDS = 10.0
# A connection breaks where a server ends, and one server may end for any reason. At the second the
# request is the likely reason, and would end the others, too.
_MAX_BROKEN = 1
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 2.0


class Cause(enum.Enum):
    """Why a call failed, as far as that decides where it is repeated."""

    OTHER = 0
    BROKEN_CONNECTION = 1
    """While the server had the call: the request may be what ended it."""
    CALLERS_LIMIT = 2
    """The caller itself sends more than it may: not a matter of the server."""


class Obstacle(enum.IntEnum):
    """What kept a call from a server. Of several the first one here is what to advise on."""

    TLS = 0
    """The two sides do not come to terms over TLS."""
    PROXY = 1
    """No server answered through the proxy."""
    CLOSED = 2
    """The server closed the connection: it may speak TLS where this side does not."""
    KEY = 3
    """The client's key is not that of its certificate."""
    NO_SERVER = 4
    """None answered, for another reason."""
    NONE = 5


@dataclass
class CallError(Exception):
    """A call that failed.

    Attributes:
        code: Of gRPC.
        message: What is wrong, and what helps.
        advised_pause: Seconds after which the server says to come back.
        cause: Decides where the call is repeated.
        violations: The fields that are wrong.
        obstacle: What kept the call from a server.
        not_sent: No server has seen the request. False where that is not certain.
    """

    code: int
    message: str
    advised_pause: float | None = None
    cause: Cause = Cause.OTHER
    violations: tuple[FieldViolation, ...] = ()
    obstacle: Obstacle = Obstacle.NONE
    not_sent: bool = False

    def __str__(self) -> str:
        return self.message

    @property
    def is_answer(self) -> bool:
        """Whether a server answered."""
        return self.code not in (UNAVAILABLE, DEADLINE_EXCEEDED)


def is_retryable(failure: CallError) -> bool:
    """Whether the same request may succeed later: no server listens, it drains, or it ended before
    it answered; or its queue is full and it says when to come back.
    """
    return failure.code == UNAVAILABLE or (
        failure.code == RESOURCE_EXHAUSTED and failure.advised_pause is not None
    )


def was_not_sent(failure: CallError) -> bool:
    """Whether no server has seen the request. False where that is not certain."""
    return failure.not_sent


def pauses(rng: random.Random) -> Iterator[float]:
    """Exponential backoff with jitter, in seconds: pause n is uniform in [1/2, 1] * min(2, 0.1 *
    2^n), so that the ranks of a job spread their retries.
    """
    for n in itertools.count():
        yield min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(n, 10)) * rng.uniform(0.5, 1)


@dataclass(frozen=True)
class Time:
    """The time that Failover lives in; tests have their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Failover:
    """Decides over all calls of a client. Thread-safe.

    The servers are in a random order, so that the clients of a cluster spread over them. A call
    begins at the server that answered the last one. The next server is tried at once. After all of
    them the call pauses, for the first time at which one of them advised to come back, and goes
    round again. After a refusal for the caller's own limit it pauses before it tries any other.

    It ends with the first answer or error that it may not repeat; with the second connection that
    broke in mid-call; or, with the last failure, as soon as another attempt would come too late:
    after its timeout; once no server has answered for `patience` seconds; without a timeout, 10 s
    after its first failure where a server says when to come back.
    """

    def __init__(
        self,
        servers: Sequence[str],
        patience: float,
        rng: random.Random | None = None,
        clock: Time | None = None,
    ) -> None:
        self._servers = tuple(servers)
        self._patience = patience
        self._rng = rng or random.Random()
        self._clock = clock or Time()
        self._order = list(range(len(servers)))
        self._rng.shuffle(self._order)
        self._first = 0  # where the next call begins; an index of _order

    def begin(
        self, timeout: float | None, may_repeat: Callable[[CallError], bool] = is_retryable
    ) -> Attempts:
        """The attempts of one call."""
        return Attempts(self, timeout, may_repeat)


class Attempts:
    """The attempts of one call, one after the other: `next`, then `succeeded` or `failed`."""

    def __init__(
        self, owner: Failover, timeout: float | None, may_repeat: Callable[[CallError], bool]
    ) -> None:
        self._owner = owner
        self._timeout = timeout
        self._may_repeat = may_repeat
        self._begin = owner._clock.now()
        self._place = owner._first
        self._pauses = pauses(owner._rng)
        self._failures: dict[int, CallError] = {}  # what each server said last
        self._broken = 0  # attempts whose connection broke
        self._in_round = 0  # attempts since the last pause
        self._soonest: CallError | None = None  # of them, the one to pause for
        self._first_failure = self._unanswered_since = math.inf

    def next(self) -> tuple[int, float | None]:
        """The server to try, as an index, and the seconds that are left."""
        server = self._owner._order[self._place]
        return server, None if self._timeout is None else max(0.0, self._timeout - self._now())

    def succeeded(self) -> list[str]:
        """The next call begins at this server. Returns what the servers said that did not answer
        this one.
        """
        self._owner._first = self._place
        answered = self._owner._order[self._place]
        return [
            failure.message
            for server, failure in sorted(self._failures.items())
            if server != answered and failure.code == UNAVAILABLE
        ]

    def failed(self, failure: CallError) -> None:
        """Pauses before the next attempt.

        Raises:
            CallError: The call is given up. Where servers did not answer, its message has what
                each server that failed said last.
        """
        order = self._owner._order
        server = order[self._place]
        following = (self._place + 1) % len(order)
        # A server that hangs is not where the next call begins.
        self._owner._first = self._place if failure.is_answer else following
        self._failures[server] = self._with_earlier(server, failure)
        if not self._may_repeat(failure):
            raise failure if failure.is_answer else self._summary(failure)
        self._broken += failure.cause is Cause.BROKEN_CONNECTION
        if self._broken > _MAX_BROKEN:
            raise self._summary(failure)
        self._count(failure)
        callers = failure.cause is Cause.CALLERS_LIMIT
        if callers or self._soonest is None or _advises_sooner(failure, self._soonest):
            self._soonest = failure
        self._in_round += 1
        self._place = following
        if self._in_round < len(order) and not callers:
            if self._has_timed_out(self._now()):
                raise self._summary(failure)
            return
        self._pause(self._soonest, failure)

    def _now(self) -> float:
        return self._owner._clock.now() - self._begin

    def _pause(self, soonest: CallError, failure: CallError) -> None:
        pause = next(self._pauses)
        if soonest.advised_pause is not None:  # jitter upwards only: nobody comes back earlier
            pause = max(pause, soonest.advised_pause * self._owner._rng.uniform(1, 1.5))
        if self._is_over(self._now() + pause):
            raise self._summary(failure)
        self._owner._clock.sleep(pause)
        self._in_round = 0
        self._soonest = None

    def _count(self, failure: CallError) -> None:
        now = self._now()
        self._first_failure = min(self._first_failure, now)
        self._unanswered_since = math.inf if failure.is_answer else min(self._unanswered_since, now)

    def _has_timed_out(self, when: float) -> bool:
        return self._timeout is not None and when + _MIN_ATTEMPT_SECONDS >= self._timeout

    def _is_over(self, when: float) -> bool:
        """Whether an attempt at that time, after a pause, is too late."""
        if self._has_timed_out(when) or when >= self._unanswered_since + self._owner._patience:
            return True
        return self._timeout is None and when >= self._first_failure + _BUSY_SECONDS

    def _with_earlier(self, server: int, failure: CallError) -> CallError:
        """A call that ran out of time while it was repeated: why it was repeated says more."""
        earlier = self._failures.get(server)
        if failure.code != DEADLINE_EXCEEDED or earlier is None:
            return failure
        message = f"{failure.message}; before that: {earlier.message}"
        return CallError(DEADLINE_EXCEEDED, message, obstacle=earlier.obstacle)

    def _summary(self, last: CallError) -> CallError:
        """Names each server but where only one failed."""
        if len(self._failures) == 1:
            return next(iter(self._failures.values()))
        texts = []
        for server, failure in sorted(self._failures.items()):
            address = self._owner._servers[server]
            text = failure.message
            texts.append(text if address in text else f"{address}: {text}")
        obstacle = min(failure.obstacle for failure in self._failures.values())
        return CallError(last.code, "; ".join(texts), last.advised_pause, obstacle=obstacle)


def _advises_sooner(a: CallError, b: CallError) -> bool:
    """Whether `a` says when to come back, and no later than `b` does."""
    if a.advised_pause is None:
        return False
    return b.advised_pause is None or a.advised_pause <= b.advised_pause
