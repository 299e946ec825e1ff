"""Asks servers: the service's calls with the package's classes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from stowage.answer import Answer, Frontier, SolverDescription
from stowage.errors import (
    BusyError,
    InternalError,
    InvalidRequestError,
    StowageError,
    UnimplementedError,
    from_status,
    invalid,
)
from stowage.exports import Export, export_of, layers_text, solved_for
from stowage.job import AdmitRequest, AdmitResponse, Device, Job, Verdict
from stowage.local import Memory, budgets_of, checked_patience, checked_timeout, solve_request
from stowage.model import Chain, Platform, Schedule, SolveOptions
from stowage.remote.connection import remedy
from stowage.remote.connections import Connections, addresses
from stowage.remote.credentials import PathLike, read_credentials
from stowage.remote.events import Event, Improved, Queued, Repeated, Running
from stowage.remote.failover import UNAVAILABLE, CallError, Failover, is_retryable, was_not_sent
from stowage.request import ExecutionReport, FrontierRequest, SimulateRequest, SolveRequest
from stowage.serialization import proto
from stowage.serialization.message import Message
from stowage.simulation import Simulation

M = TypeVar("M", bound=Message)

_LOG = logging.getLogger("stowage")

DEFAULT_SERVER = "127.0.0.1:50051"


class Client:
    """One or several servers that serve the same. Thread-safe; use it as a context manager, or
    close it.

    A call that no server has answered goes to the next one, and is repeated: see `Failover`. Calls
    raise `InvalidRequestError` with every violated field, `UnavailableError`, `BusyError` and
    `DeadlineError` after the retries, and the other errors of `stowage.errors` at once. The log
    "stowage" names a server that did not answer where another one did.

    Args:
        servers: Each "host:port" or "unix:PATH"; a string may have several, separated by commas.
        tls_ca: PEM file: root certificates to verify the servers with; turns TLS on.
        tls_cert: PEM file: the client certificate, where a server requires one.
        tls_key: PEM file: its private key.
        token: The bearer token. Without TLS it is sent unencrypted, of which the log "stowage"
            warns, unless the server is on this machine.
        token_file: Or a file with it.
        timeout: Seconds of one call with all its attempts; None: no limit.
        patience: Seconds for which a call is repeated while no server answers.
        tls: Encrypt, with the system's root certificates.
    """

    def __init__(
        self,
        servers: str | Sequence[str] = DEFAULT_SERVER,
        *,
        tls_ca: PathLike | None = None,
        tls_cert: PathLike | None = None,
        tls_key: PathLike | None = None,
        token: str | None = None,
        token_file: PathLike | None = None,
        timeout: float | None = None,
        patience: float = 3.0,
        tls: bool = False,
    ) -> None:
        self.servers = addresses(servers)
        self._timeout = checked_timeout(timeout)
        self._credentials = read_credentials(tls_ca, tls_cert, tls_key, token, token_file, tls)
        self._failover = Failover(self.servers, checked_patience(patience))
        self._connections = Connections(self.servers, self._credentials, self._timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections, and calls in progress."""
        self._connections.close()

    def solve(
        self,
        chain: Chain,
        platform: Platform | None = None,
        *,
        memory: Memory | None = None,
        solver: str = "auto",
        options: SolveOptions | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """The best schedule that a solver finds; see `stowage.solve`.

        Args:
            chain: What is trained.
            platform: The device and its link; None: a device without a link.
            memory: The budget, as in `stowage.solve`; None: platform.memory_bytes.
            solver: A name from `solvers()`.
            options: None: the server's defaults.
            timeout: Seconds; None: the client's.
        """
        request = solve_request(chain, platform, memory, solver, options)
        answer = self._ask("Solve", request, Answer, "SolveResponse", timeout)
        return replace(answer, chain=chain)

    def solve_stream(
        self,
        chain: Chain,
        platform: Platform | None = None,
        *,
        memory: Memory | None = None,
        solver: str = "auto",
        options: SolveOptions | None = None,
        timeout: float | None = None,
    ) -> Iterator[Event]:
        """The same, with events while the request is solved. The last event is the Answer.

        Closing the iterator, or breaking out of the loop, ends the solve.
        """
        request = solve_request(chain, platform, memory, solver, options)
        return self._events(_message(request, "SolveRequest"), chain, self._limit(timeout))

    def export(
        self,
        answer: Answer,
        target: str,
        *,
        chain: Chain | None = None,
        layers: tuple[int, int] | str | None = None,
        timeout: float | None = None,
    ) -> Export:
        """The best plan that a framework can express; see `stowage.export`.

        Args:
            answer: Of `solve`, feasible or not; has the platform.
            target: A name from `stowage.export_targets()`.
            chain: What the answer was solved for; None: the answer's own.
            layers: First and last stage that are the framework's layers, or a pattern of their
                names; None: all.
            timeout: Seconds; None: the client's.
        """
        chain, platform = solved_for(answer, chain)
        request = SolveRequest(
            chain=chain,
            platform=platform,
            options=SolveOptions(time_precision=0.0),
            export_for=target,
            export_layers=layers_text(layers) or None,
        )
        found = self._ask("Solve", request, Answer, "SolveResponse", timeout)
        if found.exported is None:
            raise UnimplementedError("the server is older than export_for; ask a newer one")
        return export_of(found, target)

    def frontier(
        self,
        chain: Chain,
        platform: Platform | None = None,
        *,
        points: int = 20,
        budgets: Sequence[Memory] | None = None,
        solver: str = "auto",
        options: SolveOptions | None = None,
        timeout: float | None = None,
    ) -> Frontier:
        """Makespans for many budgets; see `stowage.frontier`."""
        request = FrontierRequest(
            chain=chain,
            platform=platform or Platform(),
            solver=solver,
            options=options,
            points=points if budgets is None else 0,
            memory_bytes=tuple(budgets_of(chain, budgets)),
        )
        return self._ask("Frontier", request, Frontier, "FrontierResponse", timeout)

    def simulate(
        self,
        chain: Chain,
        platform: Platform,
        schedule: Schedule,
        *,
        timeout: float | None = None,
    ) -> Simulation:
        """Replays a schedule; see `stowage.simulate`."""
        request = SimulateRequest(chain=chain, platform=platform, schedule=schedule)
        return self._ask("Simulate", request, Simulation, "SimulateResponse", timeout)

    def admit(
        self,
        job: Job,
        devices: Sequence[Device],
        *,
        solver: str = "auto",
        options: SolveOptions | None = None,
        timeout: float | None = None,
    ) -> tuple[Verdict, ...]:
        """Whether a job fits each of 1 to 32 devices, with all layers kept or with a plan.

        In the order of the devices; where one of them has a price, those that the job fits come
        first, and of these the cheapest ones.

        Args:
            job: Its layers, and what else takes memory.
            devices: Of each, all that the job may take, its link and its price.
            solver: Of plans; a name from `solvers()`.
            options: Of plans; None: the server's defaults.
            timeout: Seconds; None: the client's.
        """
        request = AdmitRequest(job=job, devices=tuple(devices), solver=solver, options=options)
        verdicts = self._ask("Admit", request, AdmitResponse, "AdmitResponse", timeout).verdicts
        return tuple(
            verdict
            if verdict.plan is None
            else replace(verdict, plan=replace(verdict.plan, chain=job.chain))
            for verdict in verdicts
        )

    def solvers(self, *, timeout: float | None = None) -> tuple[SolverDescription, ...]:
        """The solvers that the server has."""
        request = proto.message_class("stowage.v1.ListSolversRequest")()
        response = self._call("ListSolvers", request, "ListSolversResponse", timeout, is_retryable)
        return tuple(proto.from_message(one, SolverDescription) for one in response.solvers)

    def report_execution(
        self,
        answer: Answer,
        *,
        measured_step_seconds: float,
        measured_peak_bytes: int,
        agent: str,
        job: str = "",
        timeout: float | None = None,
    ) -> None:
        """Tells the operators what a job measured when it executed an answer's schedule.

        Repeated only where no server has seen it.

        Args:
            answer: What was executed; feasible.
            measured_step_seconds: Median of the measured steps.
            measured_peak_bytes: The same, on the device.
            agent: Program and version, at most 256 bytes.
            job: A name by which operators recognize the job, at most 256 bytes.
            timeout: Seconds; None: the client's.
        """
        if answer.prediction is None:
            raise invalid("answer", "is infeasible: there is nothing that could be executed")
        report = ExecutionReport(
            fingerprint=answer.origin.fingerprint if answer.origin is not None else "",
            predicted_step_seconds=answer.prediction.makespan_seconds,
            measured_step_seconds=measured_step_seconds,
            predicted_peak_bytes=answer.prediction.peak_memory_bytes,
            measured_peak_bytes=measured_peak_bytes,
            agent=agent,
            job=job,
        )
        request = _message(report, "ReportExecutionRequest")
        self._call("ReportExecution", request, "ReportExecutionResponse", timeout, was_not_sent)

    def _ask(
        self, method: str, request: Message, wanted: type[M], response: str, timeout: float | None
    ) -> M:
        message = _message(request, f"{method}Request")
        return proto.from_message(
            self._call(method, message, response, timeout, is_retryable), wanted
        )

    def _call(
        self,
        method: str,
        request: Any,
        response: str,
        timeout: float | None,
        may_repeat: Callable[[CallError], bool],
    ) -> Any:
        response_class = proto.message_class(f"stowage.v1.{response}")
        attempts = self._failover.begin(self._limit(timeout), may_repeat)
        try:
            while True:
                server, left = attempts.next()
                try:
                    answer = self._connections[server].call(method, request, response_class, left)
                except CallError as failure:
                    attempts.failed(failure)
                else:
                    for message in attempts.succeeded():
                        _LOG.warning("passed over: %s", message)
                    return answer
        except CallError as failure:
            raise _error(failure) from None

    def _events(self, request: Any, chain: Chain, timeout: float | None) -> Iterator[Event]:
        attempts = self._failover.begin(timeout, is_retryable)
        event_class = proto.message_class("stowage.v1.SolveEvent")
        try:
            while True:
                server, left = attempts.next()
                connection = self._connections[server]
                try:
                    for message in connection.stream("SolveStream", request, event_class, left):
                        event = _event(message, chain)
                        yield event
                        if isinstance(event, Answer):
                            attempts.succeeded()
                            return
                except CallError as failure:
                    attempts.failed(failure)
                    yield Repeated(reason=failure.message)
                else:
                    raise InternalError(
                        f"the server at {connection.server} ended its events without an answer"
                    )
        except CallError as failure:
            raise _error(failure) from None

    def _limit(self, timeout: float | None) -> float | None:
        return self._timeout if timeout is None else checked_timeout(timeout)


def _message(request: Message, name: str) -> Any:
    return proto.to_message(request, proto.message_class(f"stowage.v1.{name}")())


def _event(event: Any, chain: Chain) -> Event:
    kind = event.WhichOneof("event")
    if kind == "queued":
        return Queued(before=event.queued.before)
    if kind == "running":
        return Running(solver=event.running.solver, fraction=event.running.fraction)
    if kind == "improved":
        best = proto.from_message(event.improved, Answer)
        return Improved(answer=replace(best, chain=chain))
    return replace(proto.from_message(event.answer, Answer), chain=chain)


def _error(failure: CallError) -> StowageError:
    """The exception of a call that was given up."""
    if failure.violations:
        return InvalidRequestError(failure.message, failure.violations)
    message = failure.message
    if failure.code == UNAVAILABLE and (helps := remedy(failure.obstacle)):
        message = f"{message}; {helps}"
    if failure.advised_pause is not None:
        return BusyError(message, failure.advised_pause)
    return from_status(failure.code, message)
