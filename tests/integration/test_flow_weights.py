"""Weights of flows on their way from the configuration to the queues, also through a reload."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from starlette.types import Scope

from apf_middleware.asgi.identity import Authenticated, FunctionAuthenticator
from apf_middleware.classification import Identity, RequestDigest
from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.work import WEIGHT_ONE
from tests.support.protected_app import settle
from tests.support.reloadable_app import ReloadableApp, level, written

pytestmark = pytest.mark.anyio

EXACT = level("crowd", "{shares: 1000, queuing: {queues: exact}}")


def weighted(weights: str) -> str:
    return written(EXACT.replace("  rules:", f"  {weights}\n  rules:"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "apf.yaml"


def waiting_weights(protected: ReloadableApp) -> Mapping[str, list[float]]:
    """Return the weights of the waiting tickets, by flow."""
    found: dict[str, list[float]] = {}
    for queue in protected.middleware.service.controller.levels["crowd"].shared.queueset.deck:
        for ticket in queue:
            found.setdefault(ticket.flow, []).append(ticket.weight / WEIGHT_ONE)
    return {flow: sorted(weights) for flow, weights in found.items()}  # trio starts tasks in any order


async def test_tickets_have_the_weights_of_their_flows_through_a_reload(file: Path) -> None:
    async with anyio.create_task_group() as tasks:
        protected = ReloadableApp(tasks, file, weighted("weights: {gold: 4, 'tenant-*': 2}"))
        holder = await protected.holder()
        users = ("gold", "iron", "tenant-7")
        requests = [protected.request("/work", user=user) for _ in range(2) for user in users]
        await settle()
        assert waiting_weights(protected) == {"gold": [4, 4], "iron": [1, 1], "tenant-7": [2, 2]}

        assert await protected.becomes(weighted("weight: 0.5\n  weights: {gold: 8}"))
        requests += [protected.request("/work", user=user) for user in users]
        await settle()
        assert waiting_weights(protected) == {"gold": [4, 4, 8], "iron": [0.5, 1, 1], "tenant-7": [0.5, 2, 2]}

        protected.finish()
        assert [(await one.end()).status for one in (holder, *requests)] == [200] * 10
        assert protected.is_idle()


async def test_members_of_one_flow_may_have_different_weights(file: Path) -> None:
    def authenticate(scope: Scope) -> Authenticated:
        user = dict(scope["headers"])[b"x-user"].decode()
        return Authenticated(Identity(user, (f"plan:{user}",)))

    authenticator = FunctionAuthenticator(authenticate, ["x-user"])
    async with anyio.create_task_group() as tasks:
        text = weighted("groupWeights: {'plan:gold': 4, 'plan:silver': 2}").replace("name: X-User", "name: X-Shop")
        protected = ReloadableApp(tasks, file, text, authenticator)
        holder = await protected.holder()
        users = ("gold", "silver", "iron", "gold")
        requests = [protected.request("/work", user=user) for user in users]
        await settle()
        assert waiting_weights(protected) == {"": [1, 2, 4, 4]}

        protected.finish()
        assert [(await one.end()).status for one in (holder, *requests)] == [200] * 5


def weight_of(digest: RequestDigest) -> float | None:
    """Return the weight that the query asks for, as the app's own function might look it up."""
    plans: Mapping[str, float] = {"gold": 4, "broken": -4}
    return plans.get(digest.query.get("plan", ""))


async def test_a_function_weighs_each_request_and_its_errors_take_no_seat(file: Path) -> None:
    async with anyio.create_task_group() as tasks:
        function = f"{__name__}:{weight_of.__name__}"
        protected = ReloadableApp(tasks, file, weighted(f"weight: 2\n  weightFunction: {function}"))
        holder = await protected.holder()
        queries = ("?plan=gold", "?plan=other", "", "?plan=gold")
        requests = [protected.request(f"/work{query}") for query in queries]
        await settle()
        assert waiting_weights(protected) == {"alice": [2, 2, 4, 4]}

        broken = await protected.request("/work?plan=broken").end()
        assert isinstance(broken.error, InvalidValueError)
        assert str(broken.error).startswith("weight of the schema 'for-crowd' by its function is -4, but it must be")
        assert protected.waiting == 4

        protected.finish()
        assert [(await one.end()).status for one in (holder, *requests)] == [200] * 5
        assert protected.is_idle()
