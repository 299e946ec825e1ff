"""Solving in this process: what the command line answers, without holding up Python."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace

import pytest
from support import DATA, PROFILES, chain_of, cli, profile, slow_chain, without_seconds

import stowage
from stowage import (
    Answer,
    Chain,
    InvalidRequestError,
    Operation,
    OperationKind,
    Outcome,
    Platform,
    Schedule,
    SolveOptions,
    native,
)

LINK = ("--offload-bandwidth", "12GB/s", "--half-duplex")
LINKED = Platform(offload_bytes_per_second=12e9, half_duplex=True)


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: f"{path.parent.stem}-{path.stem}")
def test_answers_are_the_command_lines(path):
    chain = Chain.from_json(path.read_bytes())
    for solver, memory in (("periodic", "30%"), ("offload_greedy", "70%")):
        text = cli("solve", "--local", "--chain", path, "--memory", memory, "--solver", solver,
                   *LINK, "--format", "json")  # fmt: skip
        answer = stowage.solve(chain, LINKED, memory=memory, solver=solver)
        assert without_seconds(answer.to_json()) == without_seconds(text)


SMALL = [path for path in PROFILES if len(Chain.from_json(path.read_bytes()).stages) <= 30]


@pytest.mark.parametrize("path", SMALL, ids=lambda path: f"{path.parent.stem}-{path.stem}")
def test_answers_of_auto_are_the_command_lines(path):
    text = cli("solve", "--local", "--chain", path, "--memory", "20%", *LINK, "--format", "json")
    answer = stowage.solve(Chain.from_json(path.read_bytes()), LINKED, memory="20%")
    assert without_seconds(answer.to_json()) == without_seconds(text)


@pytest.mark.parametrize("name", ["torchvision-resnet18-16-500", "modes/pipedream-vgg16-128-224"])
def test_frontiers_and_simulations_are_the_command_lines(name, tmp_path):
    chain, path = profile(name), DATA / f"{name}.json"
    text = cli("frontier", "--local", "--chain", path, "--points", "8", "--format", "json")
    frontier = stowage.frontier(chain, points=8)
    assert without_seconds(frontier.to_json()) == without_seconds(text)

    answer = stowage.solve(chain, LINKED, memory="20%")
    (tmp_path / "answer.json").write_text(answer.to_json())
    text = cli("simulate", "--chain", path, "--schedule", tmp_path / "answer.json",
               "--format", "json")  # fmt: skip
    assert stowage.simulate(chain, answer.platform, answer.schedule).to_json() == text


def test_solvers_are_the_command_lines():
    listed = "".join(f"{solver.to_json()}" for solver in stowage.solvers())
    lines = [line.strip() for line in cli("solvers", "--format", "json").splitlines()]
    assert [line.strip() for line in listed.splitlines() if line.strip() not in "{}"] == [
        line for line in lines[2:-2] if line.rstrip(",") not in "{}"
    ]


def test_a_budget_that_is_too_small_is_an_answer():
    answer = stowage.solve(chain_of(8), memory=1000, solver="rotor")
    assert answer.outcome is Outcome.INFEASIBLE
    assert not answer.feasible
    assert answer.schedule is None
    assert answer.minimum_memory_bytes is not None
    again = stowage.solve(chain_of(8), memory=answer.minimum_memory_bytes, solver="rotor")
    assert again.feasible


def test_memory_is_bytes_a_size_or_a_share():
    chain = chain_of(8)
    least, most = stowage.memory_range(chain)
    budgets = {"0%": least, "100%": most, "1GiB": 1 << 30, "1.5GB": 1_500_000_000, most: most}
    for memory, expected in budgets.items():
        answer = stowage.solve(chain, memory=memory, solver="store_all")
        assert answer.platform.memory_bytes == expected
    frontier = stowage.frontier(chain, budgets=["0%", "50%", most])
    assert [point.memory_bytes for point in frontier.points] == [least, (least + most) // 2, most]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"memory": 2**70}, "memory"),
        ({"memory": -1}, "memory"),
        ({"memory": "12 apples"}, "memory"),
        ({"memory": "x%"}, "memory"),
        ({"memory": 1.5}, "memory"),
        ({"memory": True}, "memory"),
        ({"memory": None}, "memory"),
        ({"solver": "fastest"}, "solver"),
        ({"segments": 99}, "options.segments"),
        ({"segments": 2**40}, "options.segments"),
        ({"memory_slots": 2**70}, "options.memory_slots"),
        ({"time_precision": float("nan")}, "options.time_precision"),
        ({"time_precision": "x"}, "options.time_precision"),
        ({"time_budget": -1}, "options.time_budget_seconds"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("-inf")}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"working_memory": "much"}, "working_memory"),
        ({"memory": "\ud800"}, "memory"),
        ({"memory": "\ud800%"}, "memory"),
        ({"solver": "\ud800"}, "solver"),
    ],
    ids=repr,
)
def test_errors_name_the_argument(changes, field):
    with pytest.raises(InvalidRequestError) as error:
        stowage.solve(chain_of(8), **{"memory": "50%", **changes})
    assert [violation.field for violation in error.value.violations] == [field]
    assert str(error.value).startswith(f"{field}: ")


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    plain = chain_of(5)
    stages = tuple(
        replace(
            stage,
            forward_seconds=numpy.float32(stage.forward_seconds),
            output_bytes=numpy.int64(stage.output_bytes),
        )
        for stage in plain.stages
    )
    chain = replace(plain, stages=stages)
    assert chain.to_json() == plain.to_json()
    timeout = numpy.float32(60)
    answers = [
        stowage.solve(one, memory=numpy.int64(1 << 24), timeout=timeout) for one in (chain, plain)
    ]
    assert answers[0].schedule == answers[1].schedule


def test_numbers_that_are_none_are_refused_by_name():
    numpy = pytest.importorskip("numpy")
    two = numpy.array([1.0, 2.0])
    wrong = replace(chain_of(2), stages=(stowage.Stage(forward_seconds=two, output_bytes=two),))
    with pytest.raises(InvalidRequestError, match=r"a value of type numpy.ndarray is not") as error:
        wrong.to_dict()
    assert [one.field for one in error.value.violations] == [
        "chain.stages[0].forward_seconds",
        "chain.stages[0].output_bytes",
    ]
    for points in ("3", 3.0, True):
        with pytest.raises(InvalidRequestError, match=r"^points: is "):
            stowage.frontier(chain_of(2), points=points)
    assert len(stowage.frontier(chain_of(2), points=numpy.int64(3)).points) == 3


def test_every_violated_field_is_named():
    chain = chain_of(3)
    stages = (
        replace(chain.stages[0], saved_bytes=1),
        replace(chain.stages[1], forward_seconds=float("nan")),
        replace(chain.stages[2], output_bytes="many"),
    )
    with pytest.raises(InvalidRequestError) as error:
        stowage.solve(replace(chain, stages=stages), memory=10**9)
    assert error.value.violations[0].field == "chain.stages[2].output_bytes"
    with pytest.raises(ValueError, match="nan") as error:
        stowage.solve(replace(chain, stages=stages[:2]), memory=10**9)
    fields = [violation.field for violation in error.value.violations]
    assert fields == ["chain.stages[0].saved_bytes", "chain.stages[1].forward_seconds"]


def test_a_schedule_that_is_not_valid_names_its_operation():
    schedule = Schedule(operations=(Operation(kind=OperationKind.BACKWARD, stage=4),))
    with pytest.raises(InvalidRequestError, match=r"^operations\[0\] BACKWARD 4: ") as error:
        stowage.simulate(chain_of(8), Platform(memory_bytes=1 << 40), schedule)
    assert error.value.violations[0].field == "schedule.operations[0]"


def test_a_solve_that_needs_too_much_memory_names_the_slots_that_fit():
    with pytest.raises(stowage.SolveMemoryError, match="slots"):
        stowage.solve(slow_chain(), memory="30%", solver="rotor", memory_slots=5000,
                      working_memory="256MiB")  # fmt: skip


def test_time_runs_out_with_the_best_so_far_or_an_error():
    chain = slow_chain()
    begin = time.monotonic()
    with pytest.raises(stowage.DeadlineError, match=r"0\.2 s"):
        stowage.frontier(chain, solver="rotor", memory_slots=500, timeout=0.2,
                         working_memory="16GiB")  # fmt: skip
    answer = stowage.solve(chain, memory="30%", time_budget=0.2)
    assert answer.feasible
    assert time.monotonic() - begin < 3


def test_progress_and_better_answers_are_reported_on_the_calling_thread():
    threads, fractions, answers = set(), [], []

    def progress(solver: str, fraction: float) -> None:
        threads.add(threading.get_ident())
        fractions.append(fraction)
        assert solver == "auto"

    def improved(answer: Answer) -> None:
        threads.add(threading.get_ident())
        answers.append(answer.prediction.makespan_seconds)

    chain = profile("torchvision-densenet121-32-224")
    answer = stowage.solve(chain, LINKED, memory="10%", progress=progress, improved=improved)
    assert threads == {threading.get_ident()}
    assert fractions == sorted(fractions)
    assert fractions
    assert answers == sorted(answers, reverse=True)
    assert answers[-1] == pytest.approx(answer.prediction.makespan_seconds)


def test_an_exception_of_a_callback_ends_the_solve():
    def progress(solver: str, fraction: float) -> None:
        raise RuntimeError("enough")

    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="enough"):
        stowage.solve(slow_chain(), memory="30%", solver="rotor", memory_slots=500,
                      working_memory="16GiB", progress=progress)  # fmt: skip
    assert time.monotonic() - begin < 5


def test_cancel_ends_a_solve():
    cancel = threading.Event()
    timer = threading.Timer(0.3, cancel.set)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(stowage.CancelledError):
        stowage.solve(slow_chain(), memory="30%", solver="rotor", memory_slots=500,
                      working_memory="16GiB", cancel=cancel)  # fmt: skip
    assert time.monotonic() - begin < 0.3 + 0.3


def test_other_threads_run_while_a_solver_does():
    def answer() -> None:
        stowage.solve(slow_chain(600), memory="30%", solver="rotor", memory_slots=500,
                      time_budget=2)  # fmt: skip

    thread = threading.Thread(target=answer)
    thread.start()
    longest, last, steps = 0.0, time.monotonic(), 0
    while thread.is_alive():
        time.sleep(0.001)
        now = time.monotonic()
        longest, last, steps = max(longest, now - last), now, steps + 1
    assert steps > 20
    assert longest < 1, "another thread had to wait for the solve"


# Solves again and again, so that a signal always finds a solve under way, however fast it is.
INTERRUPTED = textwrap.dedent("""
    import signal, sys, time
    # A shell's background jobs are started with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, sys.argv[1])
    import stowage
    from support import slow_chain
    chain = slow_chain()
    try:
        print("ready", flush=True)
        while True:
            stowage.solve(chain, memory="30%", solver=sys.argv[2], memory_slots=500,
                          working_memory="16GiB")
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
""")


@pytest.mark.parametrize("solver", ["rotor", "auto"])
def test_ctrl_c_ends_a_solve_within_a_tenth_of_a_second(solver):
    tests = str(DATA.parents[1] / "client/python/tests")
    took = []
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, tests, solver], stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                time.sleep(0.5)
                begin = time.monotonic()
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=20)
                took.append(float(out) - begin)
            finally:
                process.kill()
    assert min(took) < 0.1, took


# A daemon thread that solves again and again, so that the exit always finds a solve under way.
EXITS = textwrap.dedent("""
    import signal, sys, threading
    sys.path.insert(0, sys.argv[1])
    import stowage
    from support import slow_chain
    # A shell's background jobs are started with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chain, solves = slow_chain(), threading.Event()

    def work():
        while True:
            stowage.{call}

    def quiet(failure):
        print(failure.exc_type.__name__, flush=True)

    threading.excepthook = quiet
    threading.Thread(target=work, daemon=True).start()
    solves.wait()
    {end}
""")
SOLVE = """solve(chain, memory="30%", solver="rotor", memory_slots=500, working_memory="16GiB",
                          progress=lambda solver, fraction: solves.set())"""
FRONTIER = """frontier(chain, solver="rotor", memory_slots=500, working_memory="16GiB",
                             cancel=type("", (), {"is_set": lambda: solves.set()}))"""
BLOCKS = """solve(chain, memory="30%", solver="rotor", memory_slots=500, working_memory="16GiB",
                          progress=lambda *_: (solves.set(), threading.Event().wait()))"""


def run_to_its_end(call: str, end: str) -> subprocess.CompletedProcess[str]:
    script = EXITS.replace("{call}", call).replace("{end}", end)
    tests = str(DATA.parents[1] / "client/python/tests")
    return subprocess.run(
        [sys.executable, "-c", script, tests],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("call", [SOLVE, FRONTIER], ids=["solve", "frontier"])
@pytest.mark.parametrize(
    ("end", "code", "says"),
    [
        ("", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
        # A child has none of its parent's threads.
        ("import os; code = os.fork() and os.wait()[1]; sys.exit(code)", 0, ""),
    ],
    ids=["end", "exit", "exception", "signal", "fork"],
)
def test_python_exits_while_a_daemon_thread_solves(call, end, code, says):
    run = run_to_its_end(call, end)
    assert run.returncode == code, run.stderr
    assert run.stderr.strip().rpartition("\n")[2] == says
    assert set(run.stdout.split()) <= {"CancelledError"}


def test_a_signal_at_any_time_leaves_no_call_behind():
    """Also where it raises once the library has made the call and Python has not seen it yet."""
    script = textwrap.dedent("""
        import os, random, signal, sys, time
        sys.path.insert(0, sys.argv[1])
        import stowage
        from support import slow_chain
        chain, rng = slow_chain(300), random.Random(1)
        stowage.solve(chain, memory="30%", solver="store_all")
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        for _ in range(40):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.03))
                stowage.solve(chain, memory="30%", solver="rotor", memory_slots=2000,
                              working_memory="16GiB")
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
        end = time.monotonic() + 10
        while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < end:
            time.sleep(0.01)
        print(len(os.listdir("/proc/self/task")))
    """)
    tests = str(DATA.parents[1] / "client/python/tests")
    run = subprocess.run(
        [sys.executable, "-c", script, tests], capture_output=True, text=True, check=False
    )
    # Python itself may say of a signal that it came while an object was destroyed.
    assert (run.returncode, run.stdout) == (0, "1\n"), run.stderr


def test_a_process_that_may_start_no_thread_gets_an_error():
    script = textwrap.dedent("""
        import resource, sys
        sys.path.insert(0, sys.argv[1])
        import stowage
        from support import chain_of
        import os
        chain = chain_of(4)
        stowage.solve(chain, memory="50%")  # another user may not import from root's folders
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        if os.geteuid() == 0:  # root has no such limit
            os.setuid(65534)
        for timeout in (None, 5):
            try:
                stowage.solve(chain, memory="50%", timeout=timeout)
                print("answered")
            except stowage.SolveMemoryError as error:
                print("thread" in str(error))
    """)
    tests = str(DATA.parents[1] / "client/python/tests")
    run = subprocess.run(
        [sys.executable, "-c", script, tests], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "True\nTrue\n"


def test_python_exits_while_a_callback_blocks():
    run = run_to_its_end(BLOCKS, "")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_fuzzed_requests_raise_or_answer():
    """Whatever a dict holds: an answer or an InvalidRequestError, never another exception."""
    rng = random.Random(20260101)
    odd = [None, True, -1, 2**31, 2**63, 2**70, 10**5000, 0.5, float("nan"), float("inf"), "", "x",
           "\ud800", "GRAPH", [], {}, [None], [[]], (1,), {"a": 1}, {1: 2}, b"x",
           object()]  # fmt: skip
    base = {
        "chain": chain_of(3).to_dict(),
        "platform": Platform(memory_bytes=1 << 26, offload_bytes_per_second=1e9).to_dict(),
        "solver": "rotor",
        "options": SolveOptions().to_dict(),
    }
    outcomes = {"answer": 0, "error": 0}
    for _ in range(3000):
        request = _mutated(rng, base, odd)
        if not isinstance(request, dict):
            continue
        try:
            native.call("solve", {**request, "working_bytes": 1 << 28, "timeout_seconds": 5.0})
            outcomes["answer"] += 1
        except (InvalidRequestError, stowage.SolveMemoryError):
            outcomes["error"] += 1
    assert min(outcomes.values()) > 100, outcomes


def _mutated(rng: random.Random, value: object, odd: list[object]) -> object:
    """A copy with a value somewhere replaced, removed or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        copy = dict(value)
        key = rng.choice(list(copy))
        action = rng.random()
        if action < 0.1:
            del copy[key]
        elif action < 0.2:
            copy[rng.choice(["foo", "stages", 3, "\udc00"])] = rng.choice(odd)
        else:
            copy[key] = _mutated(rng, copy[key], odd)
        return copy
    if isinstance(value, list) and value and rng.random() < 0.9:
        copy = list(value)
        index = rng.randrange(len(copy))
        copy[index] = _mutated(rng, copy[index], odd)
        return copy
    return rng.choice(odd)


def test_fuzzed_schedules_raise_or_answer():
    rng = random.Random(7)
    chain, platform = chain_of(4), Platform(memory_bytes=1 << 26, offload_bytes_per_second=1e9)
    schedule = stowage.solve(chain, platform, solver="pofo").schedule
    assert schedule is not None
    kinds = list(OperationKind)
    for _ in range(2000):
        operations = list(schedule.operations)
        for _ in range(rng.randrange(1, 4)):
            stage = rng.choice([-1, 0, 1, 2, 4, 5, 6, 2**31 - 1])
            operation = Operation(kind=rng.choice(kinds), stage=stage)
            operations[rng.randrange(len(operations))] = operation
        with contextlib.suppress(InvalidRequestError):
            stowage.simulate(chain, platform, Schedule(operations=tuple(operations)))
