"""Estimated peaks of 24 jobs beside measured ones, on the CPU.

usage: estimates.py [--job NAME]... [--write FILE]

Prints tables in Markdown: each job's estimate, made without running it, its interval, and the peak
of a step that has had one before it; then jobs given as a config.json alone. Each estimate and each
run is in processes of its own. `--write FILE` adds instead the ratios of the tests' models to that
file, as the package's own intervals have them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "training"))
import zoo
from estimate_jobs import CONFIGS, JOBS, OPTIMIZERS, Job

import stowage
from stowage.native import format_bytes
from stowage.torch.arguments import caller_of, loss_of
from stowage.torch.measuring.meter import MemoryMeter

# Of the tests' models: their code reads what tensors contain; or test_calibration.py holds their
# peaks against the intervals.
LEFT_OUT = ("opt", "wav2vec2", "detr", "gpt2", "vit", "resnet", "t5")


def zoo_jobs() -> dict[str, Job]:
    """Each model of the tests with autocast and without."""
    names = [name for name in zoo.ZOO if name not in LEFT_OUT]
    return {
        f"{name}, {'autocast' if autocast else 'fp32'}": Job(
            lambda name=name: zoo.make(name).model,
            lambda name=name: zoo.make(name).sample,
            list(OPTIMIZERS)[number % len(OPTIMIZERS)],
            autocast,
        )
        for number, name in enumerate(names)
        for autocast in (False, True)
    }


# --- In processes of their own ----------------------------------------------------------------


def estimated(job: Job) -> stowage.Estimate:
    more: dict[str, Any] = {"accumulation": job.accumulation} if job.accumulation > 1 else {}
    if job.ranks > 1:
        more["ranks"] = job.ranks
    return stowage.estimate(
        *(job.spread, job.sample()),
        optimizer=OPTIMIZERS[job.optimizer],
        autocast=torch.bfloat16 if job.autocast else None,
        device="cpu",
        **more,
    )


def run(job: Job) -> int:
    """The peak of a step that has had one before it, of all that the job allocates."""
    torch.manual_seed(0)
    if job.ranks > 1:
        torch.distributed.init_process_group("gloo")
    with MemoryMeter(torch.device("cpu")) as meter:
        sample, model = job.sample(), job.spread()
        optimizer = OPTIMIZERS[job.optimizer](model.parameters())
        step(job, model, sample, optimizer)
        with meter.span("step"):
            step(job, model, sample, optimizer)
    peak = meter.spans["step"].peak
    if job.ranks > 1:
        peaks = [0] * job.ranks
        torch.distributed.all_gather_object(peaks, peak)
        torch.distributed.destroy_process_group()
        return max(peaks)
    return peak


def step(job: Job, model: nn.Module, sample: Any, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(job.accumulation):
        with torch.autocast("cpu", torch.bfloat16) if job.autocast else contextlib.nullcontext():
            loss = loss_of(caller_of(model, sample)())
        torch.clear_autocast_cache()
        loss.backward()
        del loss
    optimizer.step()
    optimizer.zero_grad()


def answer(what: str, name: str) -> None:
    """What a process of its own prints: a line of JSON."""
    job = {**JOBS, **zoo_jobs()}[name]
    if what == "measured":
        peak = run(job)
        if os.environ.get("RANK", "0") == "0":  # lines of several ranks may mix
            print(json.dumps(peak))
    else:
        found = estimated(job)
        print(json.dumps([found.peak_bytes, *found.interval]))


class JobError(Exception):
    """A process has failed; has its last line."""


def asked(what: str, name: str) -> Any:
    ranks = JOBS[name].ranks if name in JOBS else 1
    command = [sys.executable]
    if what == "measured" and ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return json.loads(last_line([*command, __file__, f"--{what}", name]))


def last_line(command: list[str]) -> str:
    return output_of(command).splitlines()[-1]


def output_of(command: list[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise JobError((ran.stderr.strip() or "it printed nothing").splitlines()[-1])
    return ran.stdout


# --- Tables -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes of a job's peak: estimated, the interval's ends, measured."""

    estimate: int
    low: int
    high: int
    measured: int

    @property
    def error(self) -> float:
        return self.estimate / self.measured - 1

    @property
    def is_inside(self) -> bool:
        return self.low <= self.measured <= self.high

    def cells(self) -> list[str]:
        inside = "yes" if self.is_inside else "no"
        interval = f"{_mib(self.low)} to {_mib(self.high)}"
        return [_mib(self.estimate), _mib(self.measured), f"{self.error:+.1%}", interval, inside]


def rows(names: Iterable[str]) -> Iterator[tuple[str, Row | JobError]]:
    for name in names:
        try:
            yield name, Row(*asked("estimated", name), asked("measured", name))
        except JobError as error:
            yield name, error


def print_jobs(names: Iterable[str]) -> dict[str, Row]:
    names = list(names)
    print("| job | optimizer | type | estimated, MiB | measured | error | interval | inside |")
    print("|---|---|---|---|---|---|---|---|")
    found: dict[str, Row] = {}
    for name, row in rows(names):
        job = JOBS[name]
        cells = [name, job.optimizer, "autocast" if job.autocast else "fp32"]
        if isinstance(row, Row):
            found[name] = row
            cells += row.cells()
        else:
            cells += [f"fails: {row}", *[""] * 4]
        print("| " + " | ".join(cells) + " |", flush=True)
    if found:
        errors = [abs(row.error) for row in found.values()]
        inside = sum(row.is_inside for row in found.values())
        print(f"\nerrors: {statistics.mean(errors):.1%} in the mean, {max(errors):.1%} at most")
        print(f"inside their interval: {inside} of {len(names)}")
    return found


def print_configs(found: dict[str, Row]) -> None:
    """The same jobs given to the command, which knows the configuration alone."""
    print("\n| config.json | by the command | by `estimate` | equal |")
    print("|---|---|---|---|")
    for name in CONFIGS:
        if name in found:
            printed, expected = by_command(name), format_bytes(found[name].estimate)
            equal = "yes" if printed == expected else "no"
            print(f"| {name} | {printed} | {expected} | {equal} |", flush=True)


def by_command(name: str) -> str:
    architecture, config, batch, length = CONFIGS[name]
    job = JOBS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps({**config.to_dict(), "architectures": [architecture]}))
        command = [sys.executable, "-m", "stowage.estimates", "--config", str(path)]
        command += ["--batch", str(batch), "--length", str(length), "--device", "cpu"]
        command += ["--optimizer", job.optimizer.lower()]
        command += ["--autocast", "bfloat16"] if job.autocast else []
        match = re.search(r"^peak (?!of )([^,\n]*),", output_of(command), re.MULTILINE)
    return match[1] if match else "nothing"


def write(path: str) -> None:
    calibration = stowage.Calibration(path)
    for name, job in zoo_jobs().items():
        found, measured = estimated(job), asked("measured", name)
        calibration.add(found, measured)
        print(f"{name}: {_mib(found.peak_bytes)} MiB, measured {_mib(measured)}", flush=True)


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--job", action="append", choices=JOBS, help="default: all")
    parser.add_argument("--write", metavar="FILE", help="where to add the ratios")
    parser.add_argument("--measured", help=argparse.SUPPRESS)
    parser.add_argument("--estimated", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for what in ("measured", "estimated"):
        if getattr(options, what) is not None:
            answer(what, getattr(options, what))
            return
    if options.write is not None:
        write(options.write)
        return
    print_configs(print_jobs(options.job or JOBS))


if __name__ == "__main__":
    main()
