"""A job gets its schedule from the plan file, a server or this process, and never waits long."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import replace

import pytest
from support import chain_of

import stowage
from stowage import Platform, SolveOptions, plan

DEAD = "127.0.0.1:1"
LINKED = Platform(offload_bytes_per_second=12e9, half_duplex=True)


def slower(chain, factor, stage=None):
    stages = [
        replace(one, forward_seconds=one.forward_seconds * (factor if stage in (None, i) else 1))
        for i, one in enumerate(chain.stages)
    ]
    return replace(chain, stages=tuple(stages))


def test_a_server_is_asked_and_its_answer_saved(server, tmp_path):
    chain = chain_of(10)
    first = plan(chain, memory="40%", server=server.address, plan_cache=tmp_path)
    assert (first.source, first.notes) == ("server", ())
    assert [path.name for path in tmp_path.iterdir()] == [
        f"uniform-10-{first.answer.platform.memory_bytes}.plan.json"
    ]
    again = plan(chain, memory="40%", server=DEAD, plan_cache=tmp_path)
    assert (again.source, again.notes) == ("plan file", ())
    assert again.answer == first.answer


def test_a_dead_server_costs_the_patience_and_a_note(tmp_path):
    begin = time.monotonic()
    planned = plan(chain_of(10), memory="40%", server=DEAD, patience=0.5, plan_cache=tmp_path)
    assert time.monotonic() - begin < 3
    assert planned.source == "local solve"
    assert "no answer from a server at 127.0.0.1:1" in planned.notes[0]
    # The plan was solved without a server, so one is asked again before it is used.
    again = plan(chain_of(10), memory="40%", server=DEAD, patience=0.1, plan_cache=tmp_path)
    assert again.source == "plan file"
    assert len(again.notes) == 1


def test_a_server_replaces_a_plan_that_was_solved_locally(server, tmp_path):
    assert plan(chain_of(10), memory="40%", plan_cache=tmp_path).source == "local solve"
    with_server = plan(chain_of(10), memory="40%", server=server.address, plan_cache=tmp_path)
    assert with_server.source == "server"


def test_a_plan_serves_other_times_but_no_other_sizes_or_options(tmp_path):
    chain = chain_of(10)

    def source(chain, **changes):
        arguments = {"memory": budget, "plan_cache": tmp_path, "solver": "rotor", **changes}
        planned = plan(chain, **arguments)
        return planned.source, " ".join(planned.notes)

    budget = plan(chain, memory="40%").answer.platform.memory_bytes
    assert source(chain)[0] == "local solve"
    assert source(chain)[0] == "plan file"
    assert source(replace(slower(chain, 1.01), name="uniform"))[0] == "plan file"
    assert source(chain, options=SolveOptions(time_precision=0.01))[0] == "plan file"
    assert source(chain, platform=LINKED)[0] == "local solve"
    assert source(chain, platform=replace(LINKED, half_duplex=False))[0] == "plan file"
    assert "made for memory_slots " in source(chain, options=SolveOptions(memory_slots=77))[1]
    assert source(chain, options=SolveOptions(memory_slots=77))[0] == "plan file"
    stages = (replace(chain.stages[0], saved_bytes=4 << 20), *chain.stages[1:])
    slots = SolveOptions(memory_slots=77)
    assert "'s saved_bytes " in source(replace(chain, stages=stages), options=slots)[1]


def test_a_plan_that_would_lose_more_is_not_used(tmp_path):
    chain = chain_of(10)
    first = plan(chain, memory="20%", plan_cache=tmp_path, solver="rotor")
    recomputed = max(first.answer.explanation.stages, key=lambda fate: fate.recomputed).stage
    planned = plan(
        slower(chain, 30, recomputed - 1), memory="20%", plan_cache=tmp_path, solver="rotor"
    )
    assert planned.source == "local solve"
    assert "loses more than it did" in planned.notes[0]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"request": {}, "response": {}}', "\xff"])
def test_a_damaged_plan_is_a_note(tmp_path, content):
    first = plan(chain_of(10), memory="40%", plan_cache=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(content, encoding="latin-1")
    again = plan(chain_of(10), memory="40%", plan_cache=tmp_path)
    assert (again.source, again.answer.schedule) == ("local solve", first.answer.schedule)
    assert str(path) in again.notes[0]


def test_a_plan_by_another_version_is_not_used(tmp_path):
    plan(chain_of(10), memory="40%", plan_cache=tmp_path)
    (path,) = tmp_path.iterdir()
    saved = json.loads(path.read_text())
    saved["solver_version"] += 1
    path.write_text(json.dumps(saved))
    assert "another version" in plan(chain_of(10), memory="40%", plan_cache=tmp_path).notes[0]


def test_a_plan_whose_schedule_was_changed_is_not_used(tmp_path):
    plan(chain_of(10), memory="40%", plan_cache=tmp_path)
    (path,) = tmp_path.iterdir()
    saved = json.loads(path.read_text())
    del saved["response"]["schedule"]["operations"][3]
    path.write_text(json.dumps(saved))
    assert "does not fit" in plan(chain_of(10), memory="40%", plan_cache=tmp_path).notes[0]


def test_a_plan_that_cannot_be_saved_is_a_note(tmp_path):
    (tmp_path / "file").touch()
    planned = plan(chain_of(10), memory="40%", plan_cache=tmp_path / "file")
    assert planned.source == "local solve"
    assert planned.answer.feasible
    assert any(note.startswith("cannot write") for note in planned.notes)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0, 0o644)])
def test_a_plan_has_the_rights_that_the_umask_leaves(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        plan(chain_of(10), memory="40%", plan_cache=tmp_path)
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize(
    ("make", "says"), [(os.mkfifo, "it is not a regular file"), (os.mkdir, "Is a directory")]
)
def test_what_is_no_regular_file_is_a_note(tmp_path, make, says):
    plan(chain_of(10), memory="40%", plan_cache=tmp_path)
    (path,) = tmp_path.iterdir()
    path.unlink()
    make(path)
    again = plan(chain_of(10), memory="40%", plan_cache=tmp_path)
    assert again.source == "local solve"
    assert again.notes[0] == f"cannot read {str(path)!r}: {says}"


@pytest.mark.parametrize("folder", ["a\0b", "\ud800"])
def test_a_path_that_cannot_be_is_a_note(folder):
    planned = plan(chain_of(10), memory="40%", plan_cache=folder)
    assert planned.source == "local solve"
    assert [note.split(" '")[0] for note in planned.notes] == ["cannot read", "cannot write"]


def test_a_provenance_that_is_no_json_does_not_hold_up_a_job(server, tmp_path):
    chain = replace(chain_of(10), provenance={"device": object()})
    planned = plan(chain, memory="40%", server=server.address, plan_cache=tmp_path)
    assert planned.source == "server"
    assert "chain.provenance.device" in planned.notes[0]


def test_an_infeasible_answer_is_not_saved(tmp_path):
    planned = plan(chain_of(10), memory=1000, plan_cache=tmp_path)
    assert not planned.answer.feasible
    assert not list(tmp_path.iterdir())


def test_an_invalid_request_ends_the_search(server):
    with pytest.raises(stowage.InvalidRequestError, match="solver"):
        plan(chain_of(10), memory="40%", solver="magic", server=server.address)
    for patience in (float("nan"), "x"):
        with pytest.raises(stowage.InvalidRequestError, match="patience"):
            plan(chain_of(10), memory="40%", patience=patience)
    assert plan(chain_of(10), memory="40%", patience=10**400).source == "local solve"
    with pytest.raises(stowage.InvalidRequestError, match="servers"):
        plan(chain_of(10), memory="40%", server="nowhere")
