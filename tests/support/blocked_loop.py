"""Calls of other threads, while the event loop can't do what they ask of it."""

import threading
from collections.abc import Callable

import anyio

__all__ = ["call_beside_the_loop"]


async def call_beside_the_loop(call: Callable[[], object]) -> None:
    """Let a thread make the call; raise AssertionError if it ends while the event loop is blocked."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive(), "the loop, which is blocked here, has not done it yet"
    with anyio.fail_after(60):
        await anyio.to_thread.run_sync(thread.join)
