"""When a call is repeated, and where: in a time of the test's own."""

from __future__ import annotations

import random

import pytest

from stowage.failover import (
    DEADLINE_EXCEEDED,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    CallError,
    Cause,
    Failover,
    Obstacle,
    Time,
    pauses,
    was_not_sent,
)

DOWN = CallError(UNAVAILABLE, "no answer")
BROKEN = CallError(UNAVAILABLE, "Socket closed", cause=Cause.BROKEN_CONNECTION)
FULL = CallError(RESOURCE_EXHAUSTED, "the queue is full", advised_pause=0.5)
LIMITED = CallError(RESOURCE_EXHAUSTED, "too many", advised_pause=0.5, cause=Cause.CALLERS_LIMIT)
INVALID = CallError(3, "chain: is wrong")


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


def test_a_timeout_limits_all_attempts():
    calls = Calls(1, lambda *_: DOWN, patience=100, attempt_seconds=0.1)
    with pytest.raises(CallError):
        calls.call(timeout=1.0)
    assert calls.now <= 1.0


def test_a_full_queue_is_asked_again_when_it_says():
    calls = Calls(1, lambda _, attempt: FULL if attempt == 1 else None)
    calls.call()
    assert 0.5 <= calls.pauses[0] <= 0.75


def test_a_full_queue_is_given_up_after_ten_seconds_without_a_timeout():
    calls = Calls(1, lambda *_: FULL)
    with pytest.raises(CallError, match="the queue is full"):
        calls.call()
    assert 8 < calls.now <= 10


def test_other_servers_are_asked_before_a_pause_but_not_for_the_callers_own_limit():
    calls = Calls(2, lambda _, attempt: FULL if attempt == 1 else None)
    calls.call()
    assert not calls.pauses
    calls = Calls(2, lambda _, attempt: LIMITED if attempt == 1 else None)
    calls.call()
    assert len(calls.pauses) == 1


def test_the_second_broken_connection_is_the_last():
    calls = Calls(5, lambda *_: BROKEN)
    with pytest.raises(CallError, match="Socket closed"):
        calls.call()
    assert len(calls.asked) == 2


def test_an_error_that_is_an_answer_is_not_repeated():
    calls = Calls(3, lambda *_: INVALID)
    with pytest.raises(CallError, match="is wrong"):
        calls.call()
    assert len(calls.asked) == 1


def test_a_call_that_may_have_been_sent_is_not_repeated_by_that_rule():
    refused = CallError(UNAVAILABLE, "refused", not_sent=True)
    calls = Calls(2, lambda _, attempt: refused if attempt == 1 else BROKEN)
    with pytest.raises(CallError):
        calls.call(may_repeat=was_not_sent)
    assert len(calls.asked) == 2


def test_of_several_servers_the_first_obstacle_is_what_to_advise_on():
    kept = [Obstacle.NO_SERVER, Obstacle.TLS, Obstacle.CLOSED]
    calls = Calls(3, lambda server, _: CallError(UNAVAILABLE, "none", obstacle=kept[server]), 0.0)
    with pytest.raises(CallError) as error:
        calls.call()
    assert error.value.obstacle == Obstacle.TLS


def test_a_timeout_while_repeating_says_why_it_was_repeated():
    late = CallError(DEADLINE_EXCEEDED, "too late")
    calls = Calls(1, lambda _, attempt: FULL if attempt == 1 else late)
    with pytest.raises(CallError, match="too late; before that: the queue is full"):
        calls.call(timeout=5)


def test_pauses_double_up_to_two_seconds_with_jitter():
    drawn = [next(pause) for pause in [pauses(random.Random(3))] for _ in range(10)]
    for n, pause in enumerate(drawn):
        most = min(2.0, 0.1 * 2**n)
        assert most / 2 <= pause <= most


def test_clients_begin_at_different_servers():
    first = {Failover(["a:1", "b:1", "c:1"], 3).begin(None).next()[0] for _ in range(100)}
    assert first == {0, 1, 2}
