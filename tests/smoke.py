"""Check an installed wheel in a second, with nothing but what it depends on: ``python tests/smoke.py compiled``.

The argument, ``compiled`` or ``pure``, is the build that the wheel must have.
"""

import asyncio
import pickle
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from apf_middleware import APFMiddleware, __version__, is_compiled, load
from apf_middleware.fairqueuing import Work
from apf_middleware.testing import replay
from apf_middleware.testing.trace import FORMAT, parse

__all__: list[str] = []


def check_replay() -> None:
    """Replay 20 requests, one each nanosecond, that take 10 ns on the only seat; their queue holds 5."""
    settings = {"concurrency": 1, "queues": 4, "handSize": 1, "queueLengthLimit": 5, "estimatedServiceDuration_ns": 0}
    arrivals = [
        {"t_ns": n, "op": "arrive", "id": n, "flow": "a", "flow_hash": 3, "seats": 1, "duration_ns": 10}
        for n in range(20)
    ]
    done = replay(parse({"format": FORMAT, "name": "smoke", "config": settings, "events": arrivals}))
    outcomes = Counter(row.reason or row.status for row in done.rows.values())
    # Five wait when the first has ended at 10, and another one when the second has ended at 20.
    assert outcomes == {"executed": 7, "queue-full": 13}, outcomes


async def check_request() -> None:
    """Send one request through the middleware."""
    sent: list[Mapping[str, Any]] = []

    async def app(scope: Mapping[str, Any], _receive: object, send: Any) -> None:  # noqa: ANN401
        assert scope["apf"].seats == 1
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [], "client": ("::1", 1)}
    await APFMiddleware(app, load())(scope, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"], sent
    assert sent[0]["status"] == 204, sent


def main() -> None:
    build = "compiled" if is_compiled else "pure"
    assert sys.argv[1:] == [build], f"the build is {build}"
    assert pickle.loads(pickle.dumps(Work(2, 3, 5))) == Work(2, 3, 5)  # noqa: S301 - ours
    check_replay()
    asyncio.run(check_request())
    print(f"apf-middleware {__version__} ({build}) works with Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
