"""Which files of the Python package and of the page's source import which, as they say."""

from __future__ import annotations

import ast
import pathlib
import posixpath
import re
from collections.abc import Iterable, Iterator

# The package is below it.
PYTHON_ROOT = "client/python/"

# What follows `from`, or `import` alone, in an import or a re-export of TypeScript.
SPECIFIER = re.compile(
    r"""^(?:import|export)\b(?:[^;"']*\bfrom)?\s*["'](\.[^"']*)["']""", re.MULTILINE
)


def python_imports(paths: Iterable[str]) -> dict[str, list[str]]:
    """The paths that each path imports, within functions too. What type checkers alone see under
    TYPE_CHECKING does not count: as a forward declaration in C++, it never runs.
    """
    modules = {_module(path): path for path in paths}
    return {
        path: [
            modules[name]
            for name in _imported(ast.parse(pathlib.Path(path).read_text(), path), modules)
            if name != module
        ]
        for module, path in modules.items()
    }


def _module(path: str) -> str:
    name = path.removeprefix(PYTHON_ROOT).removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


def _imported(tree: ast.AST, modules: dict[str, str]) -> Iterator[str]:
    """`from package import name` imports the module of that name where there is one."""
    for node in _nodes_that_run(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module or "" for name in whole]
        yield from (name for name in names if name in modules)


def _nodes_that_run(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for statement in child.orelse:
                yield statement
                yield from _nodes_that_run(statement)
        else:
            yield child
            yield from _nodes_that_run(child)


def typescript_imports(paths: Iterable[str]) -> dict[str, list[str]]:
    """The paths that each path imports, types too; what is generated is not among them."""
    known = {re.sub(r"\.tsx?$", "", path): path for path in paths}
    return {
        path: [
            known[name]
            for specifier in SPECIFIER.findall(pathlib.Path(path).read_text())
            if (name := posixpath.normpath(posixpath.join(posixpath.dirname(path), specifier)))
            in known
        ]
        for path in known.values()
    }
