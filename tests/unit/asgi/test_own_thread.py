"""Slow functions run in threads at once, whatever the app does with its own."""

import threading

import anyio
import pytest

from apf_middleware.asgi.own_thread import run_in_own_thread
from tests.support.busy_threads import busy_threads

pytestmark = pytest.mark.anyio


async def test_a_function_runs_in_another_thread_though_the_app_uses_all() -> None:
    with busy_threads(), anyio.fail_after(60):
        assert await run_in_own_thread(threading.get_ident) != threading.get_ident()


async def test_an_error_of_the_function_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_own_thread(lambda: 1 // 0)
