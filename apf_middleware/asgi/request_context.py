"""What an app knows of its request by context variables, so that helpers can tell the services that the app calls.

The variables are set only while the app is called. An app may call another one in its own task, for example through
`httpx.ASGITransport`: that one's requests have their own context, and the caller has its own again afterwards.
"""

from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from apf_middleware.propagation.current import CURRENT_CRITICALITY, CURRENT_DEADLINE

if TYPE_CHECKING:
    from apf_middleware.criticality import Criticality
    from apf_middleware.runtime import Admission

__all__ = ["wrap_with_context"]


def wrap_with_context(app: ASGIApp, *, has_deadlines: bool, has_criticality: bool) -> ASGIApp:
    """Wrap ``app`` so that it knows of its requests what the server knows; return it unchanged if that is nothing."""
    if not has_deadlines and not has_criticality:
        return app

    def run(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        admission: Admission | None = scope.get("apf")
        if admission is None:  # served without seats; nothing is known of it
            return app(scope, receive, send)
        # What the server doesn't know stays as it is: the time that a caller within the process has left, say.
        deadline, criticality = before = CURRENT_DEADLINE.get(), CURRENT_CRITICALITY.get()
        if has_deadlines:
            deadline = admission.deadline_ns
        if has_criticality:
            criticality = admission.destination.criticality
        if (deadline, criticality) == before:
            return app(scope, receive, send)
        return _run(app, (scope, receive, send), deadline, criticality)

    return run


async def _run(
    app: ASGIApp, exchange: tuple[Scope, Receive, Send], deadline: int | None, criticality: "Criticality | None"
) -> None:
    """Call the app, and set the variables meanwhile."""
    before = CURRENT_DEADLINE.set(deadline), CURRENT_CRITICALITY.set(criticality)
    try:
        await app(*exchange)
    finally:
        with suppress(ValueError):  # an abandoned coroutine is closed in another context, which is left as it is
            CURRENT_DEADLINE.reset(before[0])
            CURRENT_CRITICALITY.reset(before[1])
