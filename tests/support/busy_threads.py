"""An app whose handlers use all threads."""

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.to_thread import current_default_thread_limiter

__all__ = ["busy_threads"]


@contextmanager
def busy_threads() -> Iterator[None]:
    """Take all threads that anyio lends by default, as synchronous handlers do under overload."""
    limiter = current_default_thread_limiter()
    everybody = [object() for _ in range(int(limiter.total_tokens))]
    for one in everybody:
        limiter.acquire_on_behalf_of_nowait(one)
    try:
        yield
    finally:
        for one in everybody:
            limiter.release_on_behalf_of(one)
