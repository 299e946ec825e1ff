"""JSON is what the C++ programs write and read, byte for byte and error for error."""

from __future__ import annotations

import json
import random
import subprocess

import pytest
from support import DATA, PROFILES, PROGRAMS, cli, profile, without_seconds

from stowage import Answer, Chain, InvalidRequestError, Operation, OperationKind, Schedule, Stage


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_an_answer_is_written_as_it_was_read(path):
    chain = Chain.from_json(path.read_bytes())
    text = cli("solve", "--local", "--chain", path, "--memory", "40%", "--solver", "periodic",
               "--format", "json")  # fmt: skip
    answer = Answer.from_json(text)
    assert answer.to_json() == text
    assert Answer.from_dict(answer.to_dict()) == answer
    assert Chain.from_json(chain.to_json()) == chain


def test_an_answer_has_the_warnings_of_its_chain():
    path = DATA / "suspicious/varuna-bert-async-timer.json"
    text = cli("solve", "--local", "--chain", path, "--memory", "40%", "--format", "json")
    (warning,) = Answer.from_json(text).warnings
    assert warning.reason == "BACKWARD_LONG"
    assert warning.field == "chain.stages[0].backward_seconds"
    assert "torch.cuda.synchronize" in warning.problem


BASE = {"name": "a", "output_bytes": 10, "saved_bytes": 10}


def one_stage(**fields: object) -> dict[str, object]:
    return {"name": "x", "input_bytes": 10, "stages": [{**BASE, **fields}]}


ERRORS = [
    one_stage(forward_secnds=1),
    one_stage(forward_seconds="a"),
    one_stage(forward_seconds=True),
    one_stage(forward_seconds=""),
    one_stage(forward_seconds=" 1"),
    one_stage(forward_seconds="1_0"),
    one_stage(output_bytes=1.5),
    one_stage(output_bytes="1e1"),
    one_stage(output_bytes=2**63),
    one_stage(output_bytes=True),
    one_stage(output_bytes="0x10"),
    one_stage(name=3),
    one_stage(no_recompute=1),
    one_stage(save_options=[{"saved_bytes": 10, "saved": 1}]),
    one_stage(save_options=[{}, {"saved_bytes": 1.5}]),
    {**one_stage(), "input_bytes": " 10"},
    {**one_stage(), "input_bytes": ""},
    {**one_stage(), "foo": 1},
    {**one_stage(), "stages": [None]},
    '{"name": "x", "name": "y"}',
    '{"stages": [{"a": 1, "a": 2}]}',
    "[1]",
    "3",
    "",
    '{"name": nul',
    '{"name": NaN}',
    '{"name": "\\ud800"}',
    '{"a":' * 5000,
    '{"provenance":' + '{"a":' * 40 + "1" + "}" * 41,
    '{"input_bytes": ' + "9" * 5000 + "}",
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: json.dumps(case)[-40:])
def test_errors_are_those_of_the_command_line(case):
    text = case if isinstance(case, str) else json.dumps(case)
    run = subprocess.run(
        [PROGRAMS / "stowage", "solve", "--local", "--chain", "-", "--memory", "1000"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    expected = run.stderr.strip().removeprefix("stowage: standard input: ")
    with pytest.raises(InvalidRequestError) as error:
        Chain.from_json(text)
    assert str(error.value) == expected
    assert error.value.violations[0].field == expected.partition(": ")[0]


@pytest.mark.parametrize(
    "case",
    [
        one_stage(forward_seconds=None),
        one_stage(forward_seconds="1.5"),
        one_stage(output_bytes="10"),
        one_stage(output_bytes=10.0),
        one_stage(name=None),
        one_stage(no_recompute="true"),
        one_stage(save_options=[{"name": "norms", "saved_bytes": "10", "backward_seconds": 1}]),
        one_stage(save_options=[]),
        {**one_stage(), "graphEntrySeconds": 1, "loss": None, "provenance": {"a": [1, None]}},
        {"inputBytes": "10", "stages": [{"outputBytes": 10, "savedBytes": "10"}]},
    ],
)
def test_reads_what_the_command_line_reads(case):
    chain = Chain.from_json(json.dumps(case))
    assert chain.stages[0].output_bytes == 10
    assert Chain.from_json(chain.to_json()) == chain


def test_not_json_is_named_by_line_and_column():
    with pytest.raises(InvalidRequestError, match=r"^chain\.name: line 2, column 12: not JSON: "):
        Chain.from_json('{\n"name": nul')
    with pytest.raises(InvalidRequestError, match=r"^chain: line 1, column 1: not JSON: "):
        Chain.from_json(b"\xff")
    for encoding in ("utf-16", "utf-32"):
        expected = f"^chain: is {encoding.upper()}; convert it to UTF-8$"
        with pytest.raises(InvalidRequestError, match=expected):
            Chain.from_json('{"name": "a"}'.encode(encoding))
    assert Chain.from_json('{"name": "a"}'.encode("utf-8-sig")).name == "a"


def test_damaged_json_is_an_error_of_ours():
    rng = random.Random(11)
    text = (DATA / "modes/pipedream-vgg16-128-224.json").read_bytes()
    refused = 0
    for _ in range(1000):
        damaged = bytearray(text)
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.randrange(3)] = rng.choice([b"", b"{", b"9", b'"', b"\xff"])
        try:
            Chain.from_json(bytes(damaged))
        except InvalidRequestError:
            refused += 1
    assert refused > 500


def test_an_operation_of_no_kind_is_refused():
    for text in ('{"operations": [{"stage": 1}]}', '{"operations": [{"kind": 9, "stage": 1}]}'):
        with pytest.raises(InvalidRequestError, match=r"^schedule\.operations\[0\]\.kind: "):
            Schedule.from_json(text)
    read = Schedule.from_json('{"operations": [{"kind": 4, "stage": "3", "mode": "GRAPH"}]}')
    assert read.operations[0].kind is OperationKind.BACKWARD


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1 / 3, "0.33333333333333331"),
        (1e20, "1e+20"),
        (123456789012345678.0, "1.2345678901234568e+17"),
        (5e-324, "4.94065645841247e-324"),
        (float("inf"), '"Infinity"'),
        (float("nan"), '"NaN"'),
    ],
)
def test_doubles_are_as_short_as_protobuf_writes_them(number, text):
    written = Stage(forward_seconds=number).to_json()
    assert f'"forward_seconds": {text},\n' in written


def test_text_is_escaped():
    written = Stage(name='a"\\<>\n\x7f\u2028é😀\U000e0001').to_json()
    assert r'"name": "a\"\\\u003c\u003e\n\u007f\u2028é😀\udb40\udc01"' in written


def test_wrong_types_are_named_when_written():
    with pytest.raises(InvalidRequestError, match=r"^chain\.stages\[0\]\.saved_bytes: 'x' is not"):
        Chain(stages=(Stage(saved_bytes="x"),)).to_json()  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=r"^schedule\.operations\[0\]\.stage: "):
        Schedule(operations=(Operation(kind=OperationKind.BACKWARD, stage=2**31),)).to_json()


def test_names_of_any_letters_are_written_as_the_command_line_does(tmp_path):
    ranges = [(1, 0x3000), (0xFEF0, 0x10000), (0x110B0, 0x110D0), (0x1D170, 0x1D180)]
    ranges += [(0xE0000, 0xE0090), (0x1F600, 0x1F610)]
    letters = "".join(chr(code) for first, end in ranges for code in range(first, end))
    (tmp_path / "p.json").write_text(json.dumps({"name": letters, "memory_bytes": 10**9}))
    chain = profile("pipedream-alexnet-256-224")
    (tmp_path / "c.json").write_text(chain.to_json())
    files = ("--chain", tmp_path / "c.json", "--platform", tmp_path / "p.json")
    text = cli("solve", "--local", *files, "--solver", "periodic", "--format", "json")
    answer = Answer.from_json(text)
    assert answer.platform is not None
    assert answer.platform.name == letters
    assert without_seconds(answer.to_json()) == without_seconds(text)
