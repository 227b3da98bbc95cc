"""The fleet of a server, built from its configuration.

By default the processes of a fleet meet in a directory of their user: ``$XDG_RUNTIME_DIR/apf``, or ``/tmp/apf-UID``
where there is none. All containers of a fleet must have the same directory.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from anyio.abc import TaskStatus

from apf_middleware.config.fleet import FleetSettings
from apf_middleware.config.sockets import chosen_directory
from apf_middleware.exceptions import InvalidValueError, MissingExtraError
from apf_middleware.fairqueuing import Lending
from apf_middleware.fleet.flow_labels import FlowLabels
from apf_middleware.fleet.membership import Membership
from apf_middleware.runtime import Controller
from apf_middleware.runtime.fleet.budget import StatedBudget
from apf_middleware.runtime.fleet.member import FleetMember
from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.fleet.timing import FleetTiming

__all__ = ["Fleet", "build_fleet", "fleet_directory"]


class Fleet(Protocol):
    """This process's part in a fleet, whatever its store is."""

    @property
    def participant(self) -> Participant:
        """What doesn't depend on the store."""
        ...

    async def serve(self, *, task_status: TaskStatus[None] = ...) -> None:
        """Take part until cancelled."""
        ...


def fleet_directory(settings: FleetSettings, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of this fleet."""
    base = chosen_directory(settings.directory, environment)
    if base is None:
        runtime = environment.get("XDG_RUNTIME_DIR")
        base = Path(runtime, "apf") if runtime else Path(f"/tmp/apf-{os.geteuid()}")  # noqa: S108 - checked before use
    return base / f"fleet-{settings.name}"


def build_fleet(
    controller: Controller,
    settings: FleetSettings,
    on_notices: Callable[[Mapping[str, str], bool], None] = lambda _news, _is_first: None,
    on_limit: Callable[[], None] = lambda: None,
) -> Fleet:
    """Return this process's part in the fleet of these ``settings``; ``on_notices`` and ``on_limit`` are
    those of a `FleetMember`.

    Raises:
        InvalidValueError: other users could change the directory in which the processes meet, the address of Redis is
            wrong, or there are no file locks.
        MissingExtraError: redis-py is not installed.
    """
    if settings.is_of_host:
        if os.name == "nt":
            rule = "processes on Windows can't share seats without Redis"
            raise InvalidValueError(
                "fleet.store", settings.store, rule, "Give the URL of a Redis server, or remove the fleet"
            )
        from apf_middleware.runtime.fleet.host import HostFleet  # noqa: PLC0415 - it needs POSIX locks

        fleet = HostFleet(fleet_directory(settings), _participant(controller, settings, on_notices, on_limit, None))
        fleet.directory.prepare()
        return fleet
    try:
        from apf_middleware.runtime.fleet.redis_fleet import RedisFleet  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(error.name or "redis", "redis") from error
    from apf_middleware.runtime.fleet.redis_address import resolve_address, resolve_labels  # noqa: PLC0415

    participant = _participant(controller, settings, on_notices, on_limit, resolve_labels(settings))
    return RedisFleet(resolve_address(settings), f"{settings.redis.prefix}:{{{settings.name}}}:", participant)


def _participant(
    controller: Controller,
    settings: FleetSettings,
    on_notices: Callable[[Mapping[str, str], bool], None],
    on_limit: Callable[[], None],
    labels: FlowLabels | None,
) -> Participant:
    configured = StatedBudget(controller)

    def join(name: str) -> FleetMember:
        sharing = controller.sharing
        assert isinstance(sharing, Lending), "the configuration requires it"
        controller.member = member = FleetMember(
            Membership(name, lease_ns=settings.lease_ns, floor=configured.budget().floor),
            sharing,
            controller,
            now=controller.now,
            interval_ns=settings.interval_ns,
            configured=configured,
            on_notices=on_notices,
            labels=labels,
            fleet=settings.name,
        )
        member.on_limit = on_limit
        return member

    return Participant(
        settings.name,
        FleetTiming(settings.interval_ns, settings.lease_ns),
        join=join,
        leave=partial(_leave, controller),
        budget=configured.budget,
        now=controller.now,
        most_members=settings.fallback.members,
    )


def _leave(controller: Controller) -> None:
    controller.member = None
