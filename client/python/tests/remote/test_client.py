"""Client against real servers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import types
from dataclasses import replace

import grpc
import pytest
from support import (
    chain_of,
    free_port,
    listens,
    profile,
    rule_cases,
    slow_chain,
    wait_until,
    without_seconds,
)

import stowage
from stowage import (
    Answer,
    Client,
    Component,
    Device,
    Fit,
    Improved,
    Job,
    Phase,
    Platform,
    Queued,
    Running,
    SolveOptions,
    Source,
)
from stowage.errors import InfeasibleError, InvalidRequestError
from stowage.remote import connection
from stowage.remote.connection import Connection, proxy_of
from stowage.remote.credentials import Credentials

LINKED = Platform(offload_bytes_per_second=12e9, half_duplex=True)
# With slow_chain(1000): seconds.
SLOW = SolveOptions(memory_slots=250, time_precision=0.0)


@pytest.fixture
def client(server):
    with Client(server.address) as one:
        yield one


def test_answers_are_those_of_a_local_solve(client):
    chain = profile("torchvision-resnet18-16-500")
    exact = SolveOptions(time_precision=0.0)
    remote = client.solve(chain, LINKED, memory="20%", options=exact)
    local = stowage.solve(chain, LINKED, memory="20%")
    assert remote.schedule == local.schedule
    assert remote.prediction == local.prediction
    assert remote.platform == local.platform
    assert len(remote.origin.fingerprint) == 64
    again = client.solve(chain, LINKED, memory="20%", options=exact)
    assert again.origin.source is Source.MEMORY_CACHE
    simulation = client.simulate(chain, remote.platform, remote.schedule)
    expected = stowage.simulate(chain, remote.platform, remote.schedule)
    assert without_seconds(simulation.to_json()) == without_seconds(expected.to_json())
    assert client.solvers() == stowage.solvers()


@pytest.mark.parametrize("target", ["pytorch", "torchtitan", "megatron"])
def test_an_export_is_that_of_a_local_solve(client, target):
    chain = chain_of(9)
    answer = client.solve(chain, LINKED, memory="60%")
    remote = client.export(answer, target, layers=(2, 8))
    assert remote == stowage.export(answer, target, layers=(2, 8))
    assert remote.full is not None
    assert remote.usual is not None
    assert answer.exported is None
    loaded = Answer.from_json(answer.to_json())
    assert client.export(loaded, target, chain=chain, layers=(2, 8)) == remote


def test_an_export_that_is_not_possible_says_so(client):
    chain = chain_of(9)
    answer = client.solve(chain, memory=1 << 20)
    with pytest.raises(InfeasibleError, match="bytes are enough") as infeasible:
        client.export(answer, "megatron")
    enough = client.solve(chain, memory=infeasible.value.minimum_memory_bytes)
    assert client.export(enough, "megatron").exported.fits
    for options, field in (
        ({"target": "keras"}, "export_for"),
        ({"target": "jax", "layers": (3, 12)}, "export_layers"),
    ):
        with pytest.raises(InvalidRequestError) as error:
            client.export(answer, **options)
        assert [violation.field for violation in error.value.violations] == [field]


def test_a_frontier_is_that_of_a_local_solve(client):
    chain = profile("torchvision-resnet18-16-500")
    remote = client.frontier(chain, points=6, options=SolveOptions(time_precision=0.0))
    assert remote.points == stowage.frontier(chain, points=6).points
    budgets = client.frontier(chain, budgets=["50%"])
    assert len(budgets.points) == 1


def test_provenance_and_presence_pass(client):
    chain = stowage.Chain.from_dict(
        chain_of(4).to_dict()
        | {"provenance": {"a": [1, None, {"b": True}]}, "input_gradient_bytes": 0}
    )
    assert client.solve(chain, memory="50%").feasible


def test_a_stream_has_events_and_ends_with_the_answer(client):
    chain = profile("torchvision-densenet121-32-224")
    no_cache = SolveOptions(use_cache=False)
    events = list(client.solve_stream(chain, LINKED, memory="15%", options=no_cache))
    assert isinstance(events[-1], Answer)
    assert {type(event) for event in events[:-1]} <= {Queued, Running, Improved}
    assert any(isinstance(event, Improved) for event in events)
    assert events[-1].feasible


def test_a_loop_that_breaks_out_of_a_stream_ends_the_solve(start_server):
    server = start_server("--threads", "1")
    with Client(server.address) as client:
        begin = time.monotonic()
        for event in client.solve_stream(
            slow_chain(1000), memory="30%", solver="rotor", options=SLOW
        ):
            if isinstance(event, Running | Improved):
                break
        answer = client.solve(slow_chain(900), memory="30%", solver="periodic")
        assert answer.feasible
        assert time.monotonic() - begin < 20


def test_every_violated_field_is_named(client):
    chain = stowage.Chain.from_dict(
        {"stages": [{"output_bytes": 5, "saved_bytes": 1}, {"forward_seconds": -1.0}]}
    )
    with pytest.raises(stowage.InvalidRequestError) as error:
        client.solve(chain, memory=1000, solver="magic")
    fields = {violation.field for violation in error.value.violations}
    assert {"chain.stages[0].saved_bytes", "chain.stages[1].forward_seconds", "solver"} <= fields
    assert all(violation.description for violation in error.value.violations)
    with pytest.raises(stowage.InvalidRequestError) as error:
        client.solve(stowage.Chain(input_bytes=2**70), memory=1000)
    assert error.value.violations[0].field == "request.chain.input_bytes"


def test_an_execution_is_reported(client):
    answer = client.solve(chain_of(5), memory="50%")
    client.report_execution(
        answer, measured_step_seconds=1.0, measured_peak_bytes=10**7, agent="test 1", job="j"
    )
    with pytest.raises(stowage.InvalidRequestError):
        client.report_execution(answer, measured_step_seconds=-1.0, measured_peak_bytes=0, agent="")


def test_no_server_is_an_error_that_says_what_helps():
    begin = time.monotonic()
    with (
        Client("127.0.0.1:1", patience=0.5) as client,
        pytest.raises(stowage.UnavailableError, match="start stowage-server") as error,
    ):
        client.solve(chain_of(4), memory="50%")
    assert time.monotonic() - begin < 3
    assert isinstance(error.value, ConnectionError)


def test_a_proxy_that_lets_nobody_through_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:1/")
    with (
        Client("one.example:50051", patience=0.1) as client,
        pytest.raises(stowage.UnavailableError, match="check that the proxy runs") as error,
    ):
        client.solvers()
    assert "through the proxy 127.0.0.1:1, that of http_proxy (" in str(error.value)
    assert "secret" not in str(error.value)


_TRACE_PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _trace_parent_sent(server):
    metadata = Connection(server.address, Credentials())._metadata("ListSolvers", None)
    return dict(metadata).get("traceparent")


@pytest.mark.parametrize(
    ("variable", "sent"),
    [(_TRACE_PARENT, _TRACE_PARENT), ("", None), ("00-nonsense", None), ("é" * 55, None)],
)
def test_calls_are_part_of_the_environments_trace(server, monkeypatch, variable, sent):
    monkeypatch.setenv("TRACEPARENT", variable)
    assert _trace_parent_sent(server) == sent


def test_calls_are_part_of_the_programs_span(server, monkeypatch):
    """As OpenTelemetry has it, which no other test needs."""
    propagate = types.ModuleType("opentelemetry.propagate")
    propagate.inject = lambda carrier: carrier.update(traceparent=_TRACE_PARENT)
    package = types.ModuleType("opentelemetry")
    package.propagate = propagate
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", types.ModuleType("opentelemetry.trace"))
    monkeypatch.setenv("TRACEPARENT", _TRACE_PARENT.replace("4bf9", "0000"))
    assert _trace_parent_sent(server) == _TRACE_PARENT


def test_there_is_no_proxy_to_this_machine(server, monkeypatch):
    monkeypatch.setenv("grpc_proxy", "http://127.0.0.1:1")
    with Client(server.address) as client:
        assert client.solve(chain_of(4), memory="50%").feasible


@pytest.mark.parametrize("rule", rule_cases("proxies"), ids=str)
def test_a_proxy_is_found_as_by_the_programs(rule):
    named = rule["variable"] and f"{rule['address']}, that of {rule['variable']}"
    assert proxy_of(rule["server"], rule["variables"]) == named


class Failed:
    """A call that failed, as grpc reports it, of which no Stowage server says why."""

    def __init__(self, code: str, text: str) -> None:
        self.code = lambda: getattr(grpc.StatusCode, code)
        self.details = lambda: text
        self.trailing_metadata = self.initial_metadata = lambda: ()


@pytest.mark.parametrize("rule", rule_cases("grpc_failures"), ids=lambda rule: rule["text"])
def test_failures_are_told_apart_as_by_the_programs(rule):
    one = Connection("127.0.0.1:1", Credentials())
    failure = one._error(Failed(rule["code"], rule["text"]), None)
    one.close()
    assert failure.code == getattr(grpc.StatusCode, rule["becomes"]).value[0]
    assert failure.cause.name == rule["cause"]
    assert failure.obstacle.name == rule["obstacle"]
    assert failure.not_sent == rule["not_sent"]


def test_the_next_server_answers_for_a_dead_one(server, caplog):
    with Client(f"127.0.0.1:1,{server.address}", timeout=20) as client:
        client._failover._order[:] = [0, 1]
        for _ in range(3):
            assert client.solve(chain_of(4), memory="50%").feasible
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("passed over: no answer from a server at 127.0.0.1:1")


def test_errors_have_the_id_under_which_the_server_logs_the_call(client):
    with pytest.raises(stowage.InvalidRequestError, match=r"\(request [^ ]+\)$"):
        client.solve(chain_of(3), memory=1000, solver="magic")


def test_a_server_that_dies_in_mid_solve_is_replaced(start_server):
    dying, other = start_server(), start_server()
    with Client([dying.address, other.address]) as client:
        client._failover._order[:] = [0, 1]
        killer = threading.Timer(0.7, dying.kill)
        killer.start()
        options = SolveOptions(memory_slots=200)
        answer = client.solve(slow_chain(700), memory="30%", solver="rotor", options=options)
        killer.join()
        assert answer.feasible


def test_a_stream_is_repeated_with_an_event(start_server):
    dying, other = start_server(), start_server()
    with Client([dying.address, other.address]) as client:
        client._failover._order[:] = [0, 1]
        events = []
        options = SolveOptions(memory_slots=200)
        for event in client.solve_stream(
            slow_chain(700), memory="30%", solver="rotor", options=options
        ):
            if not events:
                dying.kill()
            events.append(event)
        assert any(isinstance(event, stowage.Repeated) for event in events)
        assert isinstance(events[-1], Answer)


PROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend callers
  bind {address} proto h2
  default_backend servers
backend servers
  server one {one} proto h2
  server two {two} proto h2
"""


@pytest.fixture
def behind_proxy(start_server, tmp_path):
    """The address of HAProxy, and the servers behind it; the first call goes to the first."""
    servers = start_server(), start_server()
    address = f"127.0.0.1:{free_port()}"
    path = tmp_path / "haproxy.cfg"
    path.write_text(PROXY.format(address=address, one=servers[0].address, two=servers[1].address))
    with subprocess.Popen(["/usr/sbin/haproxy", "-db", "-f", path]) as proxy:
        wait_until(lambda: listens(address) or proxy.poll() is not None)
        yield address, servers
        proxy.terminate()


def test_a_stream_that_a_proxy_ends_is_repeated(behind_proxy):
    """Its server dies after it has begun to answer."""
    address, servers = behind_proxy
    with Client(address, patience=20) as client:
        events = []
        options = SolveOptions(memory_slots=200)
        for event in client.solve_stream(
            slow_chain(700), memory="30%", solver="rotor", options=options
        ):
            if not events:
                servers[0].kill()
            events.append(event)
        assert any(isinstance(event, stowage.Repeated) for event in events)
        assert isinstance(events[-1], Answer)


def test_a_full_queue_is_an_error_with_advice(start_server):
    server = start_server("--threads", "1", "--short-threads", "0", "--queue-length", "0")
    with Client(server.address, timeout=1.0) as client, Client(server.address) as busy:
        stream = busy.solve_stream(slow_chain(1000), memory="30%", solver="rotor", options=SLOW)
        next(stream)
        with pytest.raises(stowage.BusyError) as error:
            client.solve(slow_chain(999), memory="31%", solver="rotor", options=SLOW)
        assert error.value.retry_after_seconds > 0
        stream.close()


def test_a_timeout_is_an_error_that_says_so(start_server):
    server = start_server("--threads", "1", "--short-threads", "0")
    with Client(server.address, timeout=0.5) as client, Client(server.address) as busy:
        stream = busy.solve_stream(slow_chain(1000), memory="30%", solver="rotor", options=SLOW)
        next(stream)
        with pytest.raises(stowage.DeadlineError):
            client.frontier(slow_chain(999), solver="rotor", options=SLOW)
        stream.close()


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, and what it signed for a server and a client."""
    folder = tmp_path_factory.mktemp("tls")
    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", ca_key, "-out", ca,
             "-days", "2", "-subj", "/CN=authority")  # fmt: skip
    for name in ("server", "client"):
        key, request, certificate = (folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        names = folder / f"{name}.ext"
        names.write_text("subjectAltName=IP:127.0.0.1")
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request,
                 "-subj", f"/CN={name}")  # fmt: skip
        _openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial",
                 "-out", certificate, "-days", "2", "-extfile", names)  # fmt: skip
        key.chmod(0o600)
    return folder


def test_tls_with_a_client_certificate(start_server, certificates):
    folder = certificates
    server = start_server(
        *("--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server.key")),
        *("--tls-client-ca", str(folder / "ca.pem")),
    )
    own = {"tls_cert": folder / "client.pem", "tls_key": folder / "client.key"}
    with Client(server.address, tls_ca=folder / "ca.pem", **own) as client:
        assert client.solve(chain_of(4), memory="50%").feasible
    for wrong in ({}, {"tls_ca": folder / "ca.pem"}, {"tls_ca": folder / "client.pem", **own}):
        with (
            Client(server.address, patience=0.2, **wrong) as client,
            pytest.raises(stowage.UnavailableError, match="tls_c"),
        ):
            client.solve(chain_of(4), memory="50%")


def test_a_token(start_server, tmp_path):
    tokens, mine = tmp_path / "tokens", tmp_path / "mine"
    tokens.write_text("job 0123456789abcdef0123456789abcdef\n")
    tokens.chmod(0o600)
    mine.write_text("0123456789abcdef0123456789abcdef\n")
    server = start_server("--token-file", str(tokens))
    with Client(server.address, token_file=mine) as client:
        assert client.solve(chain_of(4), memory="50%").feasible
    with Client(server.address, token=mine.read_text().strip()) as client:
        assert client.solvers()
    for wrong in ({}, {"token": "wrong"}):
        with (
            Client(server.address, **wrong) as client,
            pytest.raises(stowage.UnauthenticatedError),
        ):
            client.solve(chain_of(4), memory="50%")


def test_a_token_in_plain_text_is_logged_once(server, caplog, monkeypatch):
    monkeypatch.setattr(connection, "_WARNED", set())
    port = server.address.rpartition(":")[2]
    outside = f"ipv4:127.0.0.1:{port}"  # a name of which the client does not know where it is
    quiet = [
        (server.address, {"token": "abc"}),
        (f"localhost:{port}", {"token": "abc"}),
        ("[::1]:1", {"token": "abc"}),
        ("unix:/nowhere", {"token": "abc"}),
        (outside, {}),
        (outside, {"token": "abc", "tls": True}),
    ]
    for address, more in quiet:
        with Client(address, patience=0, timeout=5, **more) as client:
            client._connections[0]
    assert caplog.messages == []
    for _ in range(2):
        with Client(outside, token="abc") as client:
            assert client.solvers()
    assert caplog.messages == [
        f"the token goes to {outside} unencrypted: anyone on the way can read it; use TLS"
    ]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"servers": ""}, "servers"),
        ({"servers": "localhost"}, "servers"),
        ({"servers": "localhost:99999"}, "servers"),
        ({"servers": []}, "servers"),
        ({"servers": 5}, "servers"),
        ({"servers": [5]}, "servers"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"patience": float("nan")}, "patience"),
        ({"patience": "x"}, "patience"),
        ({"patience": None}, "patience"),
        ({"tls_cert": "x.pem"}, "tls_cert, tls_key"),
        ({"token": "two words"}, "token"),
        ({"token": "a", "token_file": "b"}, "token, token_file"),
    ],
    ids=str,
)
def test_arguments_are_checked(arguments, field):
    with pytest.raises(stowage.InvalidRequestError) as error:
        Client(**arguments)
    assert error.value.violations[0].field == field


def test_a_closed_client_says_so(server):
    client = Client(server.address)
    client.close()
    with pytest.raises(stowage.StowageError, match="closed"):
        client.solvers()


def test_admit_says_where_a_job_fits_and_with_which_plan(client):
    chain = profile("torchvision-resnet18-16-500")
    least, most = stowage.memory_range(chain)
    weights = 11_689_512 * 4
    job = Job(
        chain=chain,
        components=(
            Component(name="weights and Adam", bytes=4 * weights),
            Component(name="copies", bytes=weights, phase=Phase.UPDATE),
        ),
    )
    beside = 4 * weights
    sizes = beside + least - 1, beside + (least + most) // 2, beside + most
    devices = [
        Device(platform=Platform(memory_bytes=size), price=price)
        for size, price in zip(sizes, (1.0, 2.0, 3.0), strict=True)
    ]
    with_plan, fits, none = client.admit(job, devices)
    assert [verdict.device for verdict in (with_plan, fits, none)] == [1, 2, 0]
    assert fits.fit is Fit.FITS
    assert fits.peak_bytes == beside + most
    assert with_plan.fit is Fit.FITS_WITH_PLAN
    assert with_plan.plan.platform.memory_bytes == sizes[1] - beside
    simulated = stowage.simulate(chain, with_plan.plan.platform, with_plan.plan.schedule)
    assert simulated.feasible
    assert with_plan.peak_bytes == beside + simulated.prediction.peak_memory_bytes
    assert none.fit is Fit.DOES_NOT_FIT
    assert none.minimum_memory_bytes > sizes[0]
    assert Job.from_json(job.to_json()) == job

    with pytest.raises(InvalidRequestError, match=r"job\.components\[0\]\.bytes: is -1"):
        client.admit(replace(job, components=(Component(bytes=-1),)), devices)
    with pytest.raises(InvalidRequestError, match=r"devices: has 0 entries; must be 1 to 32"):
        client.admit(job, [])
