"""A progress bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ShowProgress = Callable[[int, int], None]  # (finished, total)
_HIDDEN_SECONDS = 1.0  # short work shows no bar


@contextmanager
def progress_bar(description: str, *, is_enabled: bool = True) -> Iterator[ShowProgress]:
    """Yield a function that shows how much is finished, as a bar on standard error.

    Nothing is shown if standard error is no terminal, and during the first second.
    """
    if not is_enabled or not sys.stderr.isatty():
        yield lambda finished, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None, visible=False)

        def show(finished: int, total: int) -> None:
            is_visible = (bar.tasks[0].elapsed or 0) > _HIDDEN_SECONDS
            bar.update(task, completed=finished, total=total, visible=is_visible)

        yield show
