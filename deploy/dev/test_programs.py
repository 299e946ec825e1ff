"""Which test program each source under tests/ belongs to, as the CMakeLists.txt there say."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

COMMAND = re.compile(r"\b(?:stowage_tests|target_sources)\(\s*(\w+)([^)]*)\)")
SOURCE = re.compile(r"[\w/]+\.cc\b")


def programs_of_sources() -> dict[str, str]:
    """By the source's path in the repository, the program. One of two that share a source."""
    programs: dict[str, str] = {}
    for path in sorted((ROOT / "tests").rglob("CMakeLists.txt")):
        folder = path.parent.relative_to(ROOT)
        text = re.sub(r"#.*", "", path.read_text())
        for program, rest in COMMAND.findall(text):
            for source in SOURCE.findall(rest):
                programs.setdefault(str(folder / source), program)
    return programs
