"""Progress for people who watch: on a terminal alone, with rich where it is installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from stowage.torch.measuring.workload import Progress


@contextlib.contextmanager
def progress_bar(title: str, *, enabled: bool) -> Iterator[Progress]:
    """Yields what takes a text and the part that is done."""
    if not enabled or not sys.stderr.isatty():
        yield lambda text, done: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError:
        yield lambda text, done: None
        return
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda text, done: bar.update(task, description=text, completed=done)
