"""Notice that the client of a queued request has hung up, and keep for the app what was received meanwhile.

A server reports a hang-up only to a call of ``receive``, and some (hypercorn, granian) only after the whole body was
received. So a `Hearing` calls ``receive`` while the request waits, past the end of the body, and keeps the messages.
The app receives them in order and complete. Memory is bounded: in the middle of a body a hearing that keeps `MOST_KEPT`
bytes calls no more, nor does any when all of a middleware have used up their `Allowance`. The rest of such an upload
stays with the client, and its hang-up is noticed when the app receives it.

When the app's response is complete, messages that were not asked for are dropped (see `exchange`). An empty body is
dropped when its client has hung up.

A client that expects ``100 Continue`` sends no body before it is asked for one, and servers (uvicorn) ask for it at the
first call of ``receive``. So the hearing of such a request calls nothing: the body would be sent for nothing when the
request is rejected.
"""

from typing import TYPE_CHECKING, Final

import anyio
from starlette.types import Message, Receive, Scope, Send

from apf_middleware.asgi.exchange import Exchange
from apf_middleware.asgi.headers import headers_of

if TYPE_CHECKING:
    from apf_middleware.runtime.vigil import Cancellable, Waiter

__all__ = ["MOST_KEPT", "MOST_KEPT_IN_ALL", "Allowance", "Client", "Hearing", "expects_continue"]

MOST_KEPT: Final = 64 * 1024
"""When so many bytes of one request are kept, no more is received before the app asks."""

MOST_KEPT_IN_ALL: Final = 8 * 1024 * 1024
"""The same for all requests of a middleware together, without the first message of each."""

Client = tuple[Scope, Receive]
"""The scope of a request, and how to receive what its client sends."""

_BEGINS: Final = frozenset({"http.request", "websocket.connect"})
_GONE: Final = frozenset({"http.disconnect", "websocket.disconnect"})
_PART_BYTES: Final = 256  # of the message that a part of a body comes in


class Allowance:
    """How many bytes the hearings of one middleware may still keep, beside the first message of each."""

    __slots__ = ("left",)

    def __init__(self, total: int = MOST_KEPT_IN_ALL) -> None:
        self.left: int = total

    def begin_to_listen(self, client: Client) -> "Hearing":
        """Return the hearing of one request."""
        scope, receive = client
        return Hearing(receive, self, is_silent=expects_continue(scope))

    def __repr__(self) -> str:
        return f"<Allowance: {self.left} bytes left>"


class Hearing:
    """Receives in the app's place while its request waits; `hand_over` returns what the app is called with then.

    With ``is_silent`` it receives nothing.
    """

    __slots__ = (
        "_allowance",
        "_charged",
        "_error",
        "_has_body",
        "_is_asking",
        "_is_whole",
        "_kept",
        "_kept_bytes",
        "_listening",
        "_may_receive",
        "_news",
        "_receive",
    )

    def __init__(self, receive: Receive, allowance: Allowance, *, is_silent: bool = False) -> None:
        self._receive = receive
        self._allowance = allowance
        self._kept: tuple[Message, ...] = ()  # no list, which would take more memory where many wait
        self._kept_bytes = self._charged = 0
        self._may_receive = not is_silent
        self._has_body = self._is_asking = self._is_whole = False
        self._error: Exception | None = None  # of the server's receive
        self._listening: Cancellable | None = None
        self._news: anyio.Event | None = None

    def begin(self, listening: "Cancellable") -> None:
        """Note that a task is about to `listen`."""
        self._listening, self._is_asking = listening, True

    async def listen(self, waiter: "Waiter") -> None:
        """Receive until the client has hung up, which ``waiter`` is told, or no more may be kept."""
        try:
            while self._may_receive:  # in this coroutine: one more would take its memory for each that waits
                self._keep(await self._receive())
        except Exception as error:  # noqa: BLE001 - it is raised where the app receives, as it would be without us
            self._error = error
        finally:
            self._is_asking = False
            self._tell()
        if self._kept and self._kept[-1].get("type") in _GONE:
            waiter.hang_up()

    def _keep(self, message: Message) -> None:
        kind, more = message.get("type"), message.get("more_body", False)
        body = len(message.get("body") or message.get("bytes") or message.get("text") or b"")
        cost = body + _PART_BYTES if more else body
        if self._kept:  # the first message is what the server has received anyway
            self._charged += cost
            self._allowance.left -= cost
        self._kept += (message,)
        self._has_body = self._has_body or body > 0
        self._kept_bytes += cost
        # After its end one message more: a server that says anything but that the client has gone doesn't wait for it.
        is_last = self._is_whole or kind not in _BEGINS
        self._is_whole = not more
        self._may_receive = (
            self._may_receive
            and not is_last
            and (self._is_whole or (self._kept_bytes < MOST_KEPT and self._allowance.left > 0))
        )

    def _drop(self, rest: tuple[Message, ...] = ()) -> None:
        """Keep ``rest`` only, which has no body."""
        self._allowance.left += self._charged
        self._kept, self._kept_bytes, self._charged = rest, 0, 0

    @property
    def is_drained(self) -> bool:
        """Whether nothing is left that the app has to receive from here."""
        return not self._kept and not self._is_asking and self._error is None

    def hand_over(self, send: Send) -> tuple[Receive, Send]:
        """Return the app's ``receive`` and ``send``; no more is received in its place than is asked for already."""
        self._may_receive = False
        if self.is_drained:
            return self._receive, send
        exchange = Exchange(self.receive, send, self.stop)
        return exchange.receive, exchange.send

    async def receive(self) -> Message:
        """Return the next message, for the app."""
        while not self._kept:
            error, self._error = self._error, None
            if error is not None:
                raise error
            if not self._is_asking:
                return await self._receive()
            if self._news is None:
                self._news = anyio.Event()
            await self._news.wait()  # the call goes on when this one is cancelled
        if not self._has_body and self._kept[-1].get("type") == "http.disconnect":
            self._drop(self._kept[-1:])
        message, *later = self._kept
        self._kept = tuple(later)
        if not later:
            self._drop()
        return message

    def _tell(self) -> None:
        """Let the app's `receive` look again."""
        if self._news is not None:
            self._news.set()

    def stop(self) -> None:
        """The request is over: receive no more, and keep nothing."""
        self._may_receive = False
        listening, self._listening = (
            self._listening,
            None,
        )  # or the two hold each other until a collection
        if listening is not None:
            listening.cancel()
        self._is_asking = False
        self._drop()
        self._tell()

    def __repr__(self) -> str:
        return f"<Hearing: {len(self._kept)} messages kept>"


def expects_continue(scope: Scope) -> bool:
    """Return whether the client waits to be asked for its body; of expectations HTTP knows no other."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers_of(scope))
