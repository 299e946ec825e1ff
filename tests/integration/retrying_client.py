"""Calls Solve from many threads until it is told to stop, as a job does in whose language there is
no client of ours: with grpcio and a service config alone.

usage: retrying_client.py [--wait-for-ready] CONFIG REQUEST SERVER...

CONFIG is a service config, REQUEST a file with a serialized message, SERVER host:port with a
numeric host. Says on standard error when every thread has had an answer, and after SIGTERM which
calls failed and how long the longest took; exits 0 where none failed.
"""

import argparse
import pathlib
import signal
import sys
import threading
import time

import grpc

THREADS = 32
CALL_SECONDS = 60


class Caller(threading.Thread):
    """Makes one call after the other until `stop` is set."""

    def __init__(self, call, request, wait_for_ready, stop):
        super().__init__()
        self._call, self._request, self._stop_calling = call, request, stop
        self._wait_for_ready = wait_for_ready
        self.answered = threading.Event()
        self.calls = 0
        self.longest = 0.0
        self.failures = []

    def run(self):
        while not self._stop_calling.is_set():
            self.calls += 1
            begin = time.monotonic()
            try:
                self._call(self._request, timeout=CALL_SECONDS, wait_for_ready=self._wait_for_ready)
            except grpc.RpcError as error:
                self.failures.append(f"{error.code().name}: {error.details()}")
            self.longest = max(self.longest, time.monotonic() - begin)
            self.answered.set()


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wait-for-ready", action="store_true")
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("request", type=pathlib.Path)
    parser.add_argument("servers", nargs="+")
    arguments = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    options = [
        ("grpc.service_config", arguments.config.read_text()),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    target = "ipv4:" + ",".join(arguments.servers)
    with grpc.insecure_channel(target, options) as channel:
        call = channel.unary_unary("/stowage.v1.Scheduler/Solve")
        request = arguments.request.read_bytes()
        callers = [Caller(call, request, arguments.wait_for_ready, stop) for _ in range(THREADS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.answered.wait()
        say("all threads have had an answer")
        while not stop.wait(0.1):
            pass
        for caller in callers:
            caller.join()
    failures = [failure for caller in callers for failure in caller.failures]
    longest = max(caller.longest for caller in callers)
    say(f"calls={sum(caller.calls for caller in callers)} failed={len(failures)}")
    say(f"longest={longest:.3f}s")
    for failure in sorted(set(failures)):
        say(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
