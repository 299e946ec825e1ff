"""What the experiments share: profiles, solves on them, tables and pictures.

Solves run in this process, without a server. Times and memory are the simulator's, so they are the
same on every machine. Overheads are relative to storing everything.
"""

from __future__ import annotations

import argparse
import fnmatch
import pathlib
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stowage import Chain, Platform, Prediction, solve
from stowage.local import Memory

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
DATA = REPOSITORY / "tests/data"
POFO_NETWORKS = "torchvision-*-16-500"
"""The networks of POFO's figures: batch 16, images of 500 x 500 pixels."""
POFO_SOLVERS = ("rotor", "offload_dynprog", "opportunist", "autocapper", "pofo", "auto")
CHEAP = 0.2
"""The overhead below which POFO's paper calls a schedule cheap."""


def parser(what: str, networks: str = "*") -> argparse.ArgumentParser:
    """With the arguments of all experiments; `networks` is the default."""
    found = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument(
        "--networks",
        default=networks,
        metavar="PATTERNS",
        help="names of profiles in tests/data with commas between them; a leading ! leaves out;"
        " default %(default)s",
    )
    found.add_argument(
        "--output",
        type=pathlib.Path,
        default=REPOSITORY / "build/experiments",
        metavar="DIR",
        help="folder for pictures; default build/experiments",
    )
    return found


def numbers(text: str) -> list[float]:
    """Of an argument: "0.2,0.5"."""
    return [float(number) for number in text.split(",")]


def chain_of(name: str) -> Chain:
    return Chain.from_json((DATA / f"{name}.json").read_bytes())


def chains_of(patterns: str) -> dict[str, Chain]:
    """The profiles that a pattern names, by name."""
    wanted = patterns.split(",")
    names = sorted(path.stem for path in DATA.glob("*.json"))

    def is_wanted(name: str) -> bool:
        out = any(fnmatch.fnmatchcase(name, one[1:]) for one in wanted if one.startswith("!"))
        into = [one for one in wanted if not one.startswith("!")] or ["*"]
        return not out and any(fnmatch.fnmatchcase(name, one) for one in into)

    found = {name: chain_of(name) for name in names if is_wanted(name)}
    if not found:
        sys.exit(f"--networks: no profile of {DATA} is called {patterns}")
    return found


def progress(what: str) -> None:
    """Says on standard error what is measured next."""
    print(what, file=sys.stderr, flush=True)


def makespan(chain: Chain, platform: Platform, memory: Memory, solver: str) -> float | None:
    """Seconds; None: the solver has no schedule within that memory."""
    prediction = solve(chain, platform, memory=memory, solver=solver).prediction
    return None if prediction is None else prediction.makespan_seconds


@dataclass(frozen=True)
class Result:
    """What a solver found at one point of a figure.

    Attributes:
        network: Its profile's name.
        at: The place on the figure's axis.
        solver: Its name.
        prediction: Of its schedule; None: it has none.
    """

    network: str
    at: float
    solver: str
    prediction: Prediction | None


def results(
    network: str, chain: Chain, at: float, memory: Memory, platform: Platform, names: Iterable[str]
) -> list[Result]:
    """Of each solver at one point."""
    return [
        Result(network, at, name, solve(chain, platform, memory=memory, solver=name).prediction)
        for name in names
    ]


def percent(alpha: float) -> str:
    """A budget at a share of the range from the memory floor to storing everything."""
    return f"{100 * alpha:.12g}%"


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned; all columns but the first to the right."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for first, *others in cells:
        right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *right]).rstrip())


def overheads(found: Iterable[Result]) -> dict[str, list[float]]:
    """By solver, over the points for which every solver has a schedule."""
    points: dict[tuple[str, float], list[Result]] = defaultdict(list)
    for result in found:
        points[result.network, result.at].append(result)
    common: dict[str, list[float]] = defaultdict(list)
    for point in points.values():
        if all(result.prediction is not None for result in point):
            for result in point:
                assert result.prediction is not None
                common[result.solver].append(result.prediction.overhead)
    return common


def print_summary(found: Sequence[Result]) -> None:
    """What the results say of each solver."""
    fastest: dict[tuple[str, float], float] = {}
    for result in found:
        if result.prediction is not None:
            seconds = result.prediction.makespan_seconds
            point = result.network, result.at
            fastest[point] = min(seconds, fastest.get(point, seconds))
    means = {solver: statistics.mean(values) for solver, values in overheads(found).items()}
    rows = []
    for solver in dict.fromkeys(result.solver for result in found):
        own = [result for result in found if result.solver == solver]
        fit = [(one, one.prediction) for one in own if one.prediction is not None]
        wins = sum(
            prediction.makespan_seconds <= fastest[one.network, one.at] * (1 + 1e-9)
            for one, prediction in fit
        )
        mean, rotors = means.get(solver), means.get("rotor")
        rows.append(
            (
                solver,
                f"{len(own)}",
                f"{len(fit)}",
                f"{sum(prediction.overhead < CHEAP for _, prediction in fit)}",
                "-" if mean is None else f"{mean:+.1%}",
                "-" if mean is None or not rotors else f"{mean / rotors:.0%}",
                f"{wins}",
            )
        )
    header = ("solver", "points", "feasible", "below +20%", "mean overhead", "of rotor's", "wins")
    print_table(header, rows)
    print("mean overhead: over the points that every solver has a schedule for")
    print("wins: no solver was faster\n")


def line_of(found: Iterable[Result], network: str, solver: str) -> list[Result]:
    own = [one for one in found if (one.network, one.solver) == (network, solver)]
    return sorted(own, key=lambda one: one.at)


def draw_lines(axes: Axes, lines: dict[str, list[tuple[float, float | None]]]) -> None:
    """A line each. At least half of them fit the axis: one far worse does not flatten the rest."""
    for (name, points), marker in zip(lines.items(), "osD^v*X", strict=False):
        heights = [float("nan") if y is None else y for _, y in points]
        axes.plot([x for x, _ in points], heights, marker=marker, markersize=4, label=name)
    tops = [max((y for _, y in points if y is not None), default=0.0) for points in lines.values()]
    bottom = min((y for points in lines.values() for _, y in points if y is not None), default=0.0)
    room = 0.1 * max(statistics.median_high(tops) - bottom, 1e-3)
    axes.set_ylim(bottom - room, statistics.median_high(tops) + room)
    axes.grid(alpha=0.3)


def overhead_percent(result: Result) -> float | None:
    return None if result.prediction is None else 100 * result.prediction.overhead


def draw(
    found: Sequence[Result],
    value: Callable[[Result], float | None],
    labels: tuple[str, str],
    path: pathlib.Path,
) -> None:
    """A picture of each network: a value of each solver over the place on the axis."""
    names = list(dict.fromkeys(result.network for result in found))
    solvers = list(dict.fromkeys(result.solver for result in found))
    figure, grid = panels(len(names))
    for axes, name in zip(grid, names, strict=True):
        lines = {
            solver: [(one.at, value(one)) for one in line_of(found, name, solver)]
            for solver in solvers
        }
        draw_lines(axes, lines)
        axes.set_title(name, fontsize="small")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
    finish(figure, grid[0], path)


def pofo_link(gigabytes: float) -> Platform:
    """A link of so many GB/s, which both directions share, as in POFO's figures."""
    return Platform(offload_bytes_per_second=gigabytes * 1e9, half_duplex=True)


def pofo_figure(
    what: str,
    arguments: Sequence[str] | None,
    *,
    name: str,
    flag: str,
    places: str,
    label: str,
    setting: Callable[[float], tuple[Platform, float]],
) -> list[Result]:
    """Draws a figure of POFO's paper: overheads of its solvers over `label`, on its networks.

    Args:
        what: The script's description.
        name: Of the picture.
        flag: The option for the places on the axis, which are `places` by default.
        setting: The link and the α of a place.
    """
    flags = parser(what, POFO_NETWORKS)
    flags.add_argument(flag, dest="places", type=numbers, default=places, metavar="LIST")
    options = flags.parse_args(arguments)
    found: list[Result] = []
    for network, chain in chains_of(options.networks).items():
        progress(network)
        for place in options.places:
            link, alpha = setting(place)
            found += results(network, chain, place, percent(alpha), link, POFO_SOLVERS)
    print_summary(found)
    draw(found, overhead_percent, (label, "overhead [%]"), options.output / f"{name}.png")
    return found


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """So many places to draw, at most four in a row."""
    columns = min(count, 4)
    rows = -(-count // columns)
    figure = Figure(figsize=(3.4 * columns, 2.7 * rows + 0.4), layout="constrained")
    grid = [figure.add_subplot(rows, columns, i + 1) for i in range(count)]
    return figure, grid


def finish(figure: Figure, axes: Axes, path: pathlib.Path) -> None:
    """Writes a picture with the legend of these axes."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    print(f"written: {path}")
