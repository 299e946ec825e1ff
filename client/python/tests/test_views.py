"""What people look at: plots, tables in notebooks, traces."""

from __future__ import annotations

import json
import re

import pytest
from support import chain_of, profile

import stowage
from stowage import Answer, Chain, Platform


@pytest.fixture(scope="module")
def solved() -> tuple[Answer, Chain]:
    chain = profile("torchvision-resnet18-16-500")
    platform = Platform(offload_bytes_per_second=12e9, half_duplex=True)
    return stowage.solve(chain, platform, memory="15%"), chain


def test_an_answer_is_plotted_as_lanes_and_memory(solved, tmp_path):
    answer, _ = solved
    figure = answer.plot()
    lanes, memory = figure.axes
    assert lanes.get_yticklabels()[0].get_text() == "compute"
    assert {"device", "budget"} <= set(memory.get_legend_handles_labels()[1])
    figure.savefig(tmp_path / "answer.png")
    assert (tmp_path / "answer.png").stat().st_size > 5000


def test_a_frontier_is_plotted_into_given_axes(tmp_path):
    from matplotlib.figure import Figure

    frontier = stowage.frontier(chain_of(12), points=8)
    axes = Figure().subplots()
    assert frontier.plot(axes=axes) is axes
    assert "knee" in " ".join(text.get_text() for text in axes.texts)
    assert frontier.plot() is not axes


def test_an_infeasible_answer_has_no_plot():
    answer = stowage.solve(chain_of(5), memory=100)
    with pytest.raises(stowage.InfeasibleError) as error:
        answer.plot()
    assert error.value.minimum_memory_bytes == answer.minimum_memory_bytes
    with pytest.raises(stowage.InfeasibleError):
        answer.trace()


def test_an_answer_from_json_needs_its_chain(solved):
    answer, chain = solved
    read = Answer.from_json(answer.to_json())
    assert read == answer
    assert read.chain is None
    with pytest.raises(stowage.InvalidRequestError, match="pass it"):
        read.trace()
    assert read.trace(chain) == answer.trace()


def test_notebooks_show_tables_without_external_resources(solved):
    answer, chain = solved
    frontier = stowage.frontier(chain, points=5)
    infeasible = stowage.solve(chain, memory=100)
    for html in (answer._repr_html_(), frontier._repr_html_(), infeasible._repr_html_()):
        assert html.startswith("<table>")
        assert not re.search(r"(src|href)=|<script|url\(", html)
        assert html.count("<tr>") == html.count("</tr>")
    assert "least memory" in infeasible._repr_html_()


def test_what_a_table_shows_is_escaped(solved):
    answer, _ = solved
    explanation = stowage.Explanation(notes=("<b>&",))
    shown = Answer.from_dict(answer.to_dict() | {"explanation": explanation.to_dict()})
    assert "&lt;b&gt;&amp;" in shown._repr_html_()


def test_a_trace_has_an_interval_for_each_operation(solved):
    answer, _ = solved
    events = json.loads(answer.trace())["traceEvents"]
    kinds = [operation.kind.name for operation in answer.schedule.operations]
    intervals = [event for event in events if event["ph"] == "X"]
    assert len(intervals) == len(kinds) - kinds.count("RELEASE")
    end = max(event["ts"] + event["dur"] for event in intervals)
    assert end == pytest.approx(answer.prediction.makespan_seconds * 1e6)
    counters = [event for event in events if event["ph"] == "C"]
    assert max(event["args"]["bytes"] for event in counters) == answer.prediction.peak_memory_bytes
