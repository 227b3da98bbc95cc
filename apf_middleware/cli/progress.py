"""A bar that shows how far a command has come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["show_progress"]


@contextmanager
def show_progress(name: str, total: float) -> Iterator[Callable[[float, int], None]]:
    """Yield a function that shows, on a terminal, how much of ``total`` is done, and with how many requests."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[requests]:,} requests"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(name, total=total, requests=0)
        yield lambda done, requests: progress.update(task, completed=done, requests=requests)
