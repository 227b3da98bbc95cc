"""The public API as a typing specification: checked by mypy, never run."""

from collections.abc import Sequence
from typing import assert_type

from fastapi import FastAPI
from litestar import Litestar
from prometheus_client import CollectorRegistry
from quart import Quart
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from apf_middleware import Admission, APFMiddleware, Configuration, get_admission, load
from apf_middleware.asgi.identity import TokenAuthenticator
from apf_middleware.classification import Identity
from apf_middleware.fairqueuing import EqualSerial, QueueSet, QueueSetSettings, Reason, Ticket, Work, flow_hash
from apf_middleware.testing import Call, World

settings = QueueSetSettings(10, queues=64, hand_size=6, queue_length_limit=50)
queueset = QueueSet(settings, discipline=EqualSerial, strict_upstream=False)

ticket = Ticket("alice", flow_hash("global-default", "alice"), Work(seats=2, final_seats=1, linger_ns=5))
assert_type(queueset.arrive(1, ticket), Sequence[Ticket])
assert_type(queueset.abandon(2, ticket, Reason.CANCELLED), Sequence[Ticket])
assert_type(queueset.release(3, ticket), Sequence[Ticket])
assert_type(queueset.reconfigure(4, QueueSetSettings.without_queues(3)), Sequence[Ticket])
assert_type(queueset.tick(5), Sequence[Ticket])
assert_type(queueset.next_event_at(), int | None)
assert_type(ticket.reason, Reason | None)
assert_type(queueset.rejected[Reason.QUEUE_FULL], int)


class WokenTicket(Ticket):
    """A ticket may carry what is the caller's own."""

    __slots__ = ("wake",)


queueset.arrive(6, WokenTicket("bob", 2, Work()))

world = World(queueset)
world.arrive_at(7, Call("carol", 3, Work(), duration_ns=10))

FastAPI().add_middleware(APFMiddleware)
Starlette().add_middleware(APFMiddleware, config="apf.yaml", registry=CollectorRegistry())
APFMiddleware(Litestar([]), "apf.yaml")
APFMiddleware(Quart("shop"), "apf.yaml")


def wrap(app: ASGIApp) -> ASGIApp:
    """Check that what is wrapped is an app again."""
    assert_type(load("apf.yaml"), Configuration)
    return APFMiddleware(
        app, ["levels/", "schemas/"], authenticators=[TokenAuthenticator({"secret": Identity("alice")})]
    )


async def handler(connection: HTTPConnection) -> None:
    """Use what a handler may use."""
    admission = await get_admission(connection)
    assert_type(admission, Admission)
    assert_type(admission.level, str)
    assert_type(admission.schema, str)
    assert_type(admission.flow, str)
    assert_type(admission.flow_weight, float)
    assert_type(admission.waited, float)
    assert_type(admission.seats, int)
    assert_type(admission.reason, Reason | None)
    assert_type(admission.identity, Identity)
    assert_type(admission.release(), bool)
    assert_type(admission.charge(2.5), bool)
    admission.unwatch(admission.watch("orders", namespace="acme", name="seven"))
