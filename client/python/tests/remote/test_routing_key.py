"""The key by which a balancer sends equal requests to one server."""

from __future__ import annotations

import subprocess
from concurrent import futures
from dataclasses import replace

import grpc
import pytest
from support import DATA, PROGRAMS, chain_of

from stowage import Chain, Client, InvalidRequestError, Platform, SolveOptions
from stowage.remote.routing_key import HEADER, routing_key
from stowage.serialization import proto


class Keys(grpc.GenericRpcHandler):
    """A server that refuses every call and remembers the keys; None: a call without one."""

    def __init__(self):
        self.keys = []
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, details):
        self.keys.append(dict(details.invocation_metadata).get(HEADER))

        def refuse(_request, context):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "enough")

        if details.method.endswith("SolveStream"):
            return grpc.unary_stream_rpc_method_handler(refuse)
        return grpc.unary_unary_rpc_method_handler(refuse)

    def stop(self):
        self._server.stop(None).wait()


@pytest.fixture
def keys():
    server = Keys()
    yield server
    server.stop()


def test_is_that_of_a_cpp_client(keys):
    path = DATA / "torchvision-resnet50-32-224.json"
    platform = Platform(memory_bytes=3 << 30, offload_bytes_per_second=12e9, half_duplex=True)
    chain = Chain.from_json(path.read_bytes())
    options = SolveOptions(time_precision=0.01)  # what the command line asks for
    with Client(keys.address) as client, pytest.raises(InvalidRequestError):
        client.solve(chain, platform, options=options)
    link = ("--offload-bandwidth", "12GB/s", "--half-duplex")
    flags = ("--chain", path, "--memory", "3GiB", *link, "--server", keys.address)
    command = [str(PROGRAMS / "stowage"), "solve", *map(str, flags)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    of_python, of_cpp = keys.keys
    assert of_python is not None
    assert of_python == of_cpp


def test_streams_and_frontiers_have_one_other_calls_have_none(keys):
    with Client(keys.address) as client:
        with pytest.raises(InvalidRequestError):
            list(client.solve_stream(chain_of(3), memory=1 << 30))
        with pytest.raises(InvalidRequestError):
            client.frontier(chain_of(3))
        with pytest.raises(InvalidRequestError):
            client.solvers()
    stream, frontier, solvers = keys.keys
    assert stream != frontier
    assert None not in (stream, frontier)
    assert solvers is None


def test_names_and_options_of_the_call_do_not_count():
    def key(chain, platform, options):
        message = proto.message_class("stowage.v1.SolveRequest")()
        proto.to_message(chain, message.chain)
        proto.to_message(platform, message.platform)
        proto.to_message(options, message.options)
        return routing_key(message)

    chain, platform, options = chain_of(3), Platform(memory_bytes=1000), SolveOptions()
    plain = key(chain, platform, options)
    other = Chain.from_dict(chain.to_dict() | {"name": "job 17", "provenance": {"host": "a"}})
    patient = SolveOptions(use_cache=False, time_budget_seconds=3.0)
    assert key(other, replace(platform, name="H100"), patient) == plain
    assert key(chain, Platform(memory_bytes=1001), options) != plain
    # The values of tests/unit/client/lib/rpc/routing_key_test.cc.
    assert routing_key(proto.message_class("stowage.v1.SolveRequest")()) == "cbf29ce484222325"
    only_solver = proto.message_class("stowage.v1.SolveRequest")(solver="a")
    assert routing_key(only_solver) == "ba7fcb18eb9b887f"
