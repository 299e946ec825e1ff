"""Finds a schedule for a training job whatever the state of the service: in the plan file of the
job's last run, from a server, or by solving in this process. The rules of client/lib/planner.h.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stowage import local, plan_file
from stowage.answer import Answer
from stowage.errors import InvalidRequestError, StowageError
from stowage.model import Chain, Platform, SolveOptions
from stowage.request import SolveRequest

if TYPE_CHECKING:
    from stowage.remote.client import Client

PlanSource = Literal["plan file", "server", "local solve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What `plan` found.

    Attributes:
        answer: May be infeasible.
        source: Where it came from.
        notes: A sentence for each source that failed, and for a plan that could not be saved.
    """

    answer: Answer
    source: PlanSource
    notes: tuple[str, ...] = ()


def plan(
    chain: Chain,
    platform: Platform | None = None,
    *,
    memory: local.Memory | None = None,
    server: str | Sequence[str] | None = None,
    plan_cache: str | os.PathLike[str] | None = None,
    patience: float = 10.0,
    solver: str = "auto",
    options: SolveOptions | None = None,
    tls: bool = False,
    tls_ca: str | os.PathLike[str] | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    working_memory: local.Memory = "4GiB",
    progress: Callable[[str, float], object] | None = None,
    improved: Callable[[Answer], object] | None = None,
    cancel: threading.Event | None = None,
) -> Planned:
    """Tries, in this order: the plan file, unless its plan was solved without a server; the
    servers, again and again while `patience` lasts; the plan file however it was solved; a solve
    in this process. Saves a new feasible answer in `plan_cache`.

    Args:
        chain: What is trained.
        platform: The device and its link; None: a device without a link.
        memory: The budget, as in `stowage.solve`; None: platform.memory_bytes.
        server: One or several addresses, as in `Client`; None: none.
        plan_cache: Directory of plan files; None: none.
        patience: Seconds for the servers, all attempts together.
        solver: A name from `solvers()`.
        options: None: the defaults.
        tls, tls_ca, tls_cert, tls_key, token, token_file: As in `Client`.
        working_memory, progress, improved, cancel: Of the solve in this process, as in
            `stowage.solve`.
    Raises:
        InvalidRequestError: With every violated field, from the first source that finds any.
        StowageError: Of the solve in this process, after what the other sources said.
    """
    limit = local.checked_patience(patience)
    request = local.solve_request(chain, platform, memory, solver, options)

    def connect() -> Client:
        from stowage.remote.client import Client

        return Client(
            server or (),
            tls=tls,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            token=token,
            token_file=token_file,
            timeout=max(limit, 1e-3),
            patience=limit,
        )

    def solve_here() -> Answer:
        given = options or SolveOptions()
        return local.solve(
            chain,
            request.platform,
            solver=solver,
            memory_slots=given.memory_slots,
            segments=given.segments,
            time_precision=given.time_precision or 0.0,
            report_rounding_loss=given.report_rounding_loss,
            time_budget=given.time_budget_seconds or None,
            working_memory=working_memory,
            progress=progress,
            improved=improved,
            cancel=cancel,
        )

    return _Search(request, connect if server else None, solve_here, plan_cache).run()


class _Search:
    """Tries the sources in the order of `plan`. A source that fails leaves a note, unless it is a
    missing plan file, and the next one is tried. An invalid request ends the search: no source
    could solve it.
    """

    def __init__(
        self,
        request: SolveRequest,
        connect: Callable[[], Client] | None,
        solve_here: Callable[[], Answer],
        plan_cache: str | os.PathLike[str] | None,
    ) -> None:
        self._request = request
        self._connect = connect
        self._solve_here = solve_here
        self._plan_cache = plan_cache
        self._notes: list[str] = []

    def run(self) -> Planned:
        saved = self._saved()
        # A server may have a better answer than a plan that was solved locally.
        if saved is not None and not (saved.solved_locally and self._connect is not None):
            return self._planned(saved.answer, "plan file")
        remote = self._remote()
        if remote is not None:
            return self._save(remote, "server")
        if saved is not None:
            return self._planned(saved.answer, "plan file")
        return self._save(self._local(), "local solve")

    def _saved(self) -> plan_file.LoadedPlan | None:
        if self._plan_cache is None:
            return None
        try:
            return plan_file.load(self._plan_cache, self._request)
        except plan_file.PlanError as error:
            self._notes.append(str(error))
            return None

    def _remote(self) -> Answer | None:
        if self._connect is None:
            return None
        request = self._request
        assert request.chain is not None
        try:
            with contextlib.closing(self._connect()) as client:
                return client.solve(
                    request.chain, request.platform, solver=request.solver, options=request.options
                )
        except InvalidRequestError:
            raise
        except (StowageError, OSError) as error:
            self._notes.append(str(error))
            return None

    def _local(self) -> Answer:
        try:
            return self._solve_here()
        except InvalidRequestError:
            raise
        except StowageError as error:
            if self._notes:
                error.args = ("; ".join([*self._notes, f"solving here: {error}"]),)
            raise

    def _save(self, answer: Answer, source: PlanSource) -> Planned:
        """The answer, saved for the next run."""
        if self._plan_cache is not None and answer.feasible:
            try:
                by_this_process = source == "local solve"
                plan_file.save(self._plan_cache, self._request, answer, by_this_process)
            except plan_file.PlanError as error:
                self._notes.append(str(error))
        return self._planned(answer, source)

    def _planned(self, answer: Answer, source: PlanSource) -> Planned:
        return Planned(answer=answer, source=source, notes=tuple(self._notes))
