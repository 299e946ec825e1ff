"""A connection to one server: channel, deadline, bearer token, and gRPC's errors as CallError: the
rules of client/lib/rpc/connection.h.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from stowage.errors import FieldViolation, MissingExtraError
from stowage.remote.credentials import Credentials
from stowage.remote.failover import DEADLINE_EXCEEDED, UNAVAILABLE, CallError, Cause, Obstacle
from stowage.remote.grpc_text import GrpcText
from stowage.remote.routing_key import HEADER, KEYED_METHODS, routing_key
from stowage.serialization import proto

try:
    import grpc
except ImportError as missing:
    raise MissingExtraError(
        "talking to a server needs grpcio and protobuf: pip install 'stowage-planner[client]'"
    ) from missing

_LOG = logging.getLogger("stowage")

_SERVICE = "/stowage.v1.Scheduler/"
_CANCELLED = 1
# A proxy ends a call whose server has died without a status, to which gRPC gives one of these:
# UNKNOWN or INTERNAL.
_OF_GRPC = (2, 13)
_DETAILS = "grpc-status-details-bin"
_INFO = "google.rpc.ErrorInfo"
_LONGEST_ID = 128  # that a server takes over from its caller
CONNECT_SECONDS = 5.0

_WARNED: set[str] = set()  # servers that get a token without TLS, which the log has


class Connection:
    """Connects when it is first needed, and again after a connection was lost. Thread-safe."""

    def __init__(
        self, server: str, credentials: Credentials, connect_seconds: float = CONNECT_SECONDS
    ) -> None:
        self.server = server
        self._token = credentials.token
        if self._token and not credentials.tls:
            _warn_of_plain_text(server)
        self._proxy = proxy_of(server, os.environ)
        self._channel = _connect(server, credentials, self._proxy is not None, connect_seconds)

    def call(self, method: str, request: Any, response: type[Any], timeout: float | None) -> Any:
        """Makes a call and waits for its response. Ctrl-C cancels it.

        Raises:
            CallError: The call failed.
        """
        stub = _stub(self._channel.unary_unary, method, request, response)
        call = stub.future(request, timeout=timeout, metadata=self._metadata(method, request))
        try:
            return call.result()
        except grpc.RpcError as error:
            raise self._error(error, timeout) from None
        finally:
            call.cancel()  # no effect on one that has ended

    def stream(
        self, method: str, request: Any, response: type[Any], timeout: float | None
    ) -> Iterator[Any]:
        """Makes a call and yields its responses. Closing the iterator cancels it.

        Raises:
            CallError: The call failed.
        """
        stub = _stub(self._channel.unary_stream, method, request, response)
        call = stub(request, timeout=timeout, metadata=self._metadata(method, request))
        try:
            yield from call
        except grpc.RpcError as error:
            raise self._error(error, timeout) from None
        finally:
            call.cancel()

    def close(self) -> None:
        """Ends the connection, and calls in progress."""
        self._channel.close()

    def _metadata(self, method: str, request: Any) -> list[tuple[str, str]]:
        metadata = [("authorization", f"Bearer {self._token}")] if self._token else []
        if method in KEYED_METHODS:
            metadata.append((HEADER, routing_key(request)))
        if trace_parent := _trace_parent():
            metadata.append(("traceparent", trace_parent))
        return metadata

    def _error(self, error: Any, timeout: float | None) -> CallError:
        """The failure, with the id under which the server's log has the call: in its trailers
        or, where these never came, in its initial metadata.
        """
        failure = self._failure(error, timeout)
        for metadata in (error.trailing_metadata(), error.initial_metadata()):
            for key, value in metadata or ():
                if key == "x-request-id" and 0 < len(value) <= _LONGEST_ID:
                    failure.message += f" (request {value})"
                    return failure
        return failure

    def _failure(self, error: Any, timeout: float | None) -> CallError:
        code, text = error.code().value[0], error.details() or ""
        details = _details_of(error)
        if code == _CANCELLED:  # by a server that stops; this side cancels without reading on
            message = f"the server at {self.server} ended the call as it stopped"
            return CallError(UNAVAILABLE, f"{message}; ask another server")
        if not details and code in _OF_GRPC and GrpcText(text).broken:
            return self._no_answer(GrpcText(text))
        if code == UNAVAILABLE:
            if details:
                return CallError(UNAVAILABLE, f"{self.server}: {text}")
            return self._no_answer(GrpcText(text))
        if not details and GrpcText(text).too_large:
            message = f"the request is larger than the server at {self.server} reads ({text})"
            return CallError(code, f"{message}; raise its --max-message")
        # Without a timeout it was the server's own limit, and the server says which.
        if code == DEADLINE_EXCEEDED and timeout is not None:
            message = f"the server at {self.server} did not answer within {timeout:.3g} s"
            return CallError(code, f"{message}; give it more time, or ask for fewer memory slots")
        failure = CallError(code, text)
        for name, detail in details.items():
            _add(name, detail, failure)
        return failure

    def _no_answer(self, said: GrpcText) -> CallError:
        """Of an UNAVAILABLE that no Stowage server made."""
        if said.tls:
            message = f"the server at {self.server} and this side do not come to terms over TLS"
            cause, obstacle = Cause.OTHER, Obstacle.TLS
        else:
            through = f" through the proxy {self._proxy}" if self._proxy else ""
            message = f"no answer from a server at {self.server}{through}"
            cause = Cause.BROKEN_CONNECTION if said.broken else Cause.OTHER
            if self._proxy:
                obstacle = Obstacle.PROXY
            elif said.closed:
                obstacle = Obstacle.CLOSED
            else:
                obstacle = Obstacle.KEY if said.key_does_not_fit else Obstacle.NO_SERVER
        return CallError(
            UNAVAILABLE,
            f"{message} ({said.text})",
            cause=cause,
            obstacle=obstacle,
            not_sent=said.never_connected,
        )


def _stub(make: Callable[..., Any], method: str, request: Any, response: type[Any]) -> Any:
    return make(
        _SERVICE + method,
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString,
    )


def _trace_parent() -> str:
    """Of the program's span where it uses OpenTelemetry, else of the variable TRACEPARENT; empty:
    there is none that may be sent.
    """
    carrier: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        with contextlib.suppress(Exception):  # a trace is worth no call
            from opentelemetry import propagate

            propagate.inject(carrier)
    text = carrier.get("traceparent", os.environ.get("TRACEPARENT", ""))
    # Other characters would fail the call; the server ignores what else is wrong.
    return text if re.fullmatch("[0-9a-f-]{55}", text) else ""


def proxy_of(server: str, environment: Mapping[str, str]) -> str | None:
    """The proxy through which gRPC connects to the server, and the variable that names it: "a:3128,
    that of http_proxy". None: there is none. The rules are those of client/lib/rpc/proxy.h, to
    which tests/data/rules/proxies.json holds both.
    """
    if _is_this_machine(server):
        return None
    host = _host_of(server)
    variable = _first_set(("grpc_proxy", "https_proxy", "http_proxy"), environment)
    if variable is None or not environment[variable].startswith("http://"):
        return None
    address = environment[variable].removeprefix("http://").split("/")[0].rpartition("@")[2]
    exceptions = _first_set(("no_grpc_proxy", "no_proxy"), environment)
    ends = environment[exceptions].lower().split(",") if exceptions else []
    if not address or any(end.strip() and host.lower().endswith(end.strip()) for end in ends):
        return None
    return f"{address}, that of {variable}"


def _first_set(variables: Iterable[str], environment: Mapping[str, str]) -> str | None:
    return next((variable for variable in variables if variable in environment), None)


def _host_of(server: str) -> str:
    return server.rpartition(":")[0].removeprefix("[").removesuffix("]")


def _is_this_machine(server: str) -> bool:
    """Whether the address is a Unix socket or of the loopback interface."""
    host = _host_of(server)
    try:
        return (
            server.startswith("unix:")
            or host == "localhost"
            or ipaddress.ip_address(host).is_loopback
        )
    except ValueError:  # another name
        return False


_REMEDIES = {
    Obstacle.TLS: "check tls_ca, and tls_cert where it asks for one, or leave them out where it "
    "does not speak TLS",
    Obstacle.PROXY: "check that the proxy runs and lets this server through, or name the server "
    "in no_proxy where it is reached without; else start stowage-server, or name another",
    Obstacle.CLOSED: "if it speaks TLS give tls_ca, and tls_cert where it asks for one; else start "
    "stowage-server, or name another",
    Obstacle.KEY: "check that tls_key is the key of tls_cert",
    Obstacle.NO_SERVER: "start stowage-server, or name another",
}


def remedy(obstacle: Obstacle) -> str:
    """What helps against it; empty where the message says it itself."""
    return _REMEDIES.get(obstacle, "")


def _connect(
    server: str, credentials: Credentials, through_proxy: bool, connect_seconds: float
) -> Any:
    milliseconds = math.ceil(connect_seconds * 1000)
    options = [
        ("grpc.max_receive_message_length", -1),  # a schedule may have a million operations
        # How long connecting and looking up a name may take; gRPC's own limits are 20 s and 2 min.
        ("grpc.min_reconnect_backoff_ms", milliseconds),
        ("grpc.dns_ares_query_timeout", milliseconds),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.keepalive_time_ms", 30_000),  # as often as the server allows
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_http_proxy", int(through_proxy)),
    ]
    if not credentials.tls:
        return grpc.insecure_channel(server, options)
    channel = grpc.ssl_channel_credentials(
        root_certificates=credentials.authorities,
        private_key=credentials.key,
        certificate_chain=credentials.certificate,
    )
    return grpc.secure_channel(server, channel, options)


def _warn_of_plain_text(server: str) -> None:
    """Once a server and process, unless nobody else can read what is sent to it."""
    if server in _WARNED or _is_this_machine(server):
        return
    _WARNED.add(server)
    _LOG.warning("the token goes to %s unencrypted: anyone on the way can read it; use TLS", server)


def _details_of(error: Any) -> dict[str, bytes]:
    """The details of an error of a Stowage server, by the names of their types; none where
    something else made the error.
    """
    found: dict[str, bytes] = {}
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS:
            continue
        with contextlib.suppress(Exception):  # a server of another kind
            status = proto.message_class("stowage.v1.ErrorStatus").FromString(value)
            found = {one.type_url.rpartition("/")[2]: one.value for one in status.details}
    info = proto.message_class(_INFO).FromString(found.get(_INFO, b""))
    return found if info.domain == "stowage" else {}


def _add(name: str, value: bytes, failure: CallError) -> None:
    if name == "stowage.v1.Violations":
        found = proto.message_class(name).FromString(value)
        if not found.more:
            failure.violations = tuple(
                FieldViolation(one.field, one.problem) for one in found.violations
            )
    elif name == "stowage.v1.RetryAdvice":
        failure.advised_pause = proto.message_class(name).FromString(value).retry_after_seconds
    elif name == _INFO:
        reason = proto.message_class(name).FromString(value).reason
        if reason in ("CLIENT_RATE", "CLIENT_LIMIT"):
            failure.cause = Cause.CALLERS_LIMIT
