"""When a call is repeated, and where: in a time of the test's own."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support import rule_cases

from stowage.remote.failover import (
    DEADLINE_EXCEEDED,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    CallError,
    Cause,
    Failover,
    Obstacle,
    Time,
    is_retryable,
    pauses,
    was_not_sent,
)

DOWN = CallError(UNAVAILABLE, "no answer")
BROKEN = CallError(UNAVAILABLE, "Socket closed", cause=Cause.BROKEN_CONNECTION)
FULL = CallError(RESOURCE_EXHAUSTED, "the queue is full", advised_pause=0.5)
LIMITED = CallError(RESOURCE_EXHAUSTED, "too many", advised_pause=0.5, cause=Cause.CALLERS_LIMIT)
INVALID = CallError(3, "chain: is wrong")
CODES = {
    3: "INVALID_ARGUMENT",
    DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED",
    RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
    UNAVAILABLE: "UNAVAILABLE",
}


class Calls:
    """Makes calls whose attempts end as a script says: `script[server]` gives a failure or None."""

    def __init__(self, servers, script, patience=3.0, attempt_seconds=0.0):
        self.now, self.pauses, self.asked = 0.0, [], []
        self.script, self.attempt_seconds = script, attempt_seconds
        clock = Time(now=lambda: self.now, sleep=self._sleep)
        names = [f"server{i}:1" for i in range(servers)]
        self.failover = Failover(names, patience, random.Random(1), clock)

    def _sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    def call(self, timeout=None, **rule):
        attempts = self.failover.begin(timeout, **rule)
        while True:
            server, left = attempts.next()
            self.asked.append(server)
            self.now += self.attempt_seconds
            failure = self.script(server, len(self.asked))
            if failure is None:
                attempts.succeeded()
                return server, left
            attempts.failed(failure)


# What an attempt of a shared rule ends with; a number behind it is the advised pause.
SAYS = {
    "OK": None,
    "DEAD": DOWN,
    "BROKEN": BROKEN,
    "FULL": FULL,
    "LIMITED": LIMITED,
    "INVALID": INVALID,
    "REFUSED": CallError(UNAVAILABLE, "refused", not_sent=True),
    "LATE": CallError(DEADLINE_EXCEEDED, "too late"),
}


def said(text: str) -> CallError | None:
    word, *advice = text.split()
    return replace(SAYS[word], advised_pause=float(advice[0])) if advice else SAYS[word]


@pytest.mark.parametrize("rule", rule_cases("failover"), ids=lambda rule: rule["name"])
def test_calls_are_repeated_as_by_the_programs(rule):
    says = rule["says"]
    calls = Calls(
        rule["servers"],
        lambda _, attempt: said(says[min(attempt, len(says)) - 1]),
        rule["patience"],
        rule["attempt_seconds"],
    )
    may_repeat = was_not_sent if rule["rule"] == "WAS_NOT_SENT" else is_retryable
    ends, message = "OK", ""
    try:
        calls.call(rule["timeout"], may_repeat=may_repeat)
    except CallError as error:
        ends, message = CODES[error.code], error.message
    assert ends == rule["ends"]
    assert rule["attempts"] in (None, len(calls.asked))
    assert rule["pauses"] in (None, len(calls.pauses))
    assert calls.now >= rule["least_seconds"] - 1e-6
    assert rule["most_seconds"] is None or calls.now <= rule["most_seconds"] + 1e-6
    assert (rule["message"] or "") in message


def test_the_next_server_is_tried_at_once_and_remembered():
    calls = Calls(3, lambda server, _: DOWN if server == calls.asked[0] else None)
    calls.call()
    assert not calls.pauses
    answered = calls.asked[-1]
    assert calls.call()[0] == answered


def test_all_down_is_given_up_after_the_patience_with_what_each_said():
    calls = Calls(2, lambda server, _: CallError(UNAVAILABLE, f"down {server}"))
    with pytest.raises(CallError) as error:
        calls.call()
    assert 1.0 < calls.now < 3.0
    assert error.value.message == "server0:1: down 0; server1:1: down 1"


def test_one_server_is_not_named_twice():
    calls = Calls(1, lambda *_: DOWN)
    with pytest.raises(CallError, match=r"^no answer$"):
        calls.call()


def test_of_several_servers_the_first_obstacle_is_what_to_advise_on():
    kept = [Obstacle.NO_SERVER, Obstacle.TLS, Obstacle.CLOSED]
    calls = Calls(3, lambda server, _: CallError(UNAVAILABLE, "none", obstacle=kept[server]), 0.0)
    with pytest.raises(CallError) as error:
        calls.call()
    assert error.value.obstacle == Obstacle.TLS


def test_pauses_double_up_to_two_seconds_with_jitter():
    drawn = [next(pause) for pause in [pauses(random.Random(3))] for _ in range(10)]
    for n, pause in enumerate(drawn):
        most = min(2.0, 0.1 * 2**n)
        assert most / 2 <= pause <= most


def test_clients_begin_at_different_servers():
    first = {Failover(["a:1", "b:1", "c:1"], 3).begin(None).next()[0] for _ in range(100)}
    assert first == {0, 1, 2}
