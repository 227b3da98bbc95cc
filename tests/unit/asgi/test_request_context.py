"""Context variables are set while an app is called, and are as before afterwards."""

import contextvars
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import anyio.lowlevel
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apf_middleware.asgi.request_context import wrap_with_context
from apf_middleware.criticality import Criticality
from apf_middleware.propagation.current import CURRENT_CRITICALITY, CURRENT_DEADLINE

pytestmark = pytest.mark.anyio

Context = tuple[int | None, Criticality | None]
BEFORE: Context = (7, Criticality.CRITICAL)
ITS_OWN: Context = (5, Criticality.SHEDDABLE)


class Noting:
    """An app that notes its context."""

    def __init__(self) -> None:
        self.seen: list[Context] = []

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        self.seen.append(context())
        await anyio.lowlevel.checkpoint()
        self.seen.append(context())
        if "error" in scope:
            raise scope["error"]


def context() -> Context:
    return CURRENT_DEADLINE.get(), CURRENT_CRITICALITY.get()


def scope_of(found: Context, **more: object) -> Scope:
    return {
        "apf": SimpleNamespace(deadline_ns=found[0], destination=SimpleNamespace(criticality=found[1])),
        **more,
    }


async def receive() -> Message:
    raise AssertionError


async def send(_message: Message) -> None:
    raise AssertionError


async def ask(app: ASGIApp, scope: Scope) -> None:
    CURRENT_DEADLINE.set(BEFORE[0])
    CURRENT_CRITICALITY.set(BEFORE[1])
    try:
        await app(scope, receive, send)
    finally:
        assert context() == BEFORE


@pytest.mark.parametrize("found", [ITS_OWN, BEFORE, (None, None), (None, BEFORE[1])])
async def test_an_app_knows_its_request(found: Context) -> None:
    app = Noting()
    await ask(wrap_with_context(app, has_deadlines=True, has_criticality=True), scope_of(found))
    assert app.seen == [found, found]


@pytest.mark.parametrize("has_deadlines", [True, False])
async def test_what_a_server_does_not_know_stays(has_deadlines: bool) -> None:  # noqa: FBT001 - a parameter of the test
    app = Noting()
    wrapped = wrap_with_context(app, has_deadlines=has_deadlines, has_criticality=not has_deadlines)
    await ask(wrapped, scope_of(ITS_OWN))
    expected = (ITS_OWN[0], BEFORE[1]) if has_deadlines else (BEFORE[0], ITS_OWN[1])
    assert app.seen == [expected, expected]


async def test_the_context_is_as_before_after_an_error() -> None:
    app = Noting()
    with pytest.raises(LookupError):
        await ask(
            wrap_with_context(app, has_deadlines=True, has_criticality=True), scope_of(ITS_OWN, error=LookupError())
        )
    assert app.seen == [ITS_OWN, ITS_OWN]


async def test_requests_without_an_admission_keep_the_context() -> None:
    app = Noting()
    await ask(wrap_with_context(app, has_deadlines=True, has_criticality=True), {})
    assert app.seen == [BEFORE, BEFORE]


def test_an_app_is_not_wrapped_for_nothing() -> None:
    app = Noting()
    assert wrap_with_context(app, has_deadlines=False, has_criticality=False) is app


def test_an_abandoned_request_does_not_touch_the_context_in_which_it_is_closed() -> None:
    class Pause:
        def __await__(self) -> Any:  # noqa: ANN401
            yield

    async def wait(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await Pause()

    wrapped = wrap_with_context(wait, has_deadlines=True, has_criticality=True)
    request = wrapped(scope_of(ITS_OWN), receive, send)
    assert isinstance(request, Coroutine)
    contextvars.copy_context().run(request.send, None)
    other = contextvars.copy_context()
    other.run(CURRENT_DEADLINE.set, 11)
    other.run(request.close)
    assert other.run(CURRENT_DEADLINE.get) == 11
