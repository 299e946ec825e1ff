"""Shows the details of an error as any gRPC client can: with grpcio and grpcio-status alone.

usage: error_details.py [--tls-ca FILE] SERVER METHOD < REQUEST

SERVER is host:port, METHOD a method of stowage.v1.Scheduler such as Solve, REQUEST a serialized
message. FILE has the authority of the server's certificate, as PEM; without one the call is not
encrypted. Prints the status and each detail on a line; exits 0 where the call succeeded.
"""

import argparse
import pathlib
import sys

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status


def lines(error):
    """The status of a grpc.RpcError and its details, a line each."""
    yield f"{error.code().name}: {error.details()}"
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        if detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            for violation in bad.field_violations:
                yield f"field {violation.field}: {violation.description}"
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            yield f"retry after {retry.retry_delay.ToMilliseconds()} ms"
        elif detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            yield f"reason {info.domain}/{info.reason}"


def connect(server, tls_ca):
    """A channel to the server, encrypted where there is a file with its authority."""
    if tls_ca is None:
        return grpc.insecure_channel(server)
    return grpc.secure_channel(server, grpc.ssl_channel_credentials(tls_ca.read_bytes()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tls-ca", type=pathlib.Path)
    parser.add_argument("server")
    parser.add_argument("method")
    arguments = parser.parse_args()
    with connect(arguments.server, arguments.tls_ca) as channel:
        call = channel.unary_unary(f"/stowage.v1.Scheduler/{arguments.method}")
        try:
            call(sys.stdin.buffer.read(), timeout=60, wait_for_ready=True)
        except grpc.RpcError as error:
            print("\n".join(lines(error)))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
