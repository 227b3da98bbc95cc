"""A second configuration that is tried with the requests of a running server, and touches nothing."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from apf_middleware.asgi.identity import Chain
from apf_middleware.asgi.request_cache import CacheKeys
from apf_middleware.asgi.request_deadlines import build_deadlines
from apf_middleware.asgi.resolver import ResolvedRequest
from apf_middleware.asgi.scope import method_of, path_of
from apf_middleware.asgi.shadow_places import ShadowPlaces
from apf_middleware.classification.text import printable
from apf_middleware.config import Configuration
from apf_middleware.config.estimation import Sources
from apf_middleware.copying import Value
from apf_middleware.runtime.shadow import ShadowServer
from apf_middleware.runtime.shadow.followed import find_caveats, followed_part
from apf_middleware.runtime.shadow.report import TrialFacts, read_shadow, report
from apf_middleware.snapshots.shadow import ShadowExample

if TYPE_CHECKING:
    from apf_middleware.asgi.request_deadlines import RequestDeadlines
    from apf_middleware.estimation import Inventory
    from apf_middleware.metrics import ShadowReading
    from apf_middleware.runtime.admission import RequestObservation
    from apf_middleware.runtime.controller import Controller
    from apf_middleware.snapshots.shadow import ShadowSnapshot

__all__ = ["Shadow", "ShadowTrial"]

_MOST_SHOWN: Final = 200  # characters of a path or a name


@dataclass(frozen=True, slots=True)
class ShadowTrial(Value):
    """A ``configuration`` to try, and its ``text`` with where that is from; ``classify_only`` leaves waits out.

    ``has_server`` tells whether the text has a Server document.
    """

    configuration: Configuration
    text: str
    source: str
    classify_only: bool = False
    has_server: bool = True


class Shadow:
    """A trial that sees all requests from now on.

    ``controller``, ``chain`` and ``inventory`` are those of the real server, and so are the ``keys`` of its cache.
    ``on_failure`` is called with this and the error that ends it.
    """

    def __init__(
        self,
        trial: ShadowTrial,
        controller: "Controller",
        chain: Chain,
        keys: CacheKeys,
        *,
        inventory: "Inventory",
        on_failure: Callable[["Shadow", Exception], None],
    ) -> None:
        self.trial: ShadowTrial = trial
        self.since: float = time.time()
        self.begun_at: int = controller.now()
        self._configuration = followed_part(trial.configuration)
        self.server: ShadowServer = ShadowServer(self._configuration, controller.now, partial(on_failure, self))
        self._tallies, self._classify_only = self.server.tallies, trial.classify_only
        own = self.server.controller
        sources = Sources(self.server.costs, inventory, controller.watches.interested, own.count_watches)
        self.places: ShadowPlaces = ShadowPlaces(self._configuration, self.server, chain, keys, sources)
        self._deadlines: RequestDeadlines | None = None
        self.adopt(chain, keys)

    def adopt(self, chain: Chain, keys: CacheKeys) -> None:
        """Use the ``chain`` and the ``keys`` of another real configuration."""
        self.places.adopt(chain, keys)
        self._deadlines = build_deadlines(self._configuration, chain, self.server.costs)

    def begin(self, scope: Scope, resolved: ResolvedRequest) -> "RequestObservation | None":
        """Return the observation of a request; None if it has no place in the second configuration."""
        server = self.server
        if server.is_over:
            return None
        try:
            tallies, places = self._tallies, self.places
            tallies.requests += 1
            place = places.known.young.get(resolved)
            if place is None and (place := places.find(scope, resolved)) is None:
                return None
            real, flow, tally = resolved.classification, place.flow, place.tally
            if flow is None or not flow.is_kept:
                flow = place.flow = tallies.flow(place.destination.classification)
            flow.requests += 1
            tally.requests += 1
            if place.real is not real:
                place.compare(real)
            if place.is_other:
                tally.otherwise += 1
                flow.otherwise += 1
                difference = tallies.differ(real, place.destination.classification)
                if difference is not None:
                    difference.examples.append(_example(scope, resolved.identity.name))
            if self._classify_only:
                return None
            left = None if self._deadlines is None else self._deadlines.find(place.destination, scope)
            return server.begin(place, left)
        except Exception as error:  # noqa: BLE001 - an error here must never reach a request
            server.fail(error)
            return None

    def reading(self, *, has_failed: bool) -> "ShadowReading":
        """Return the numbers for the metrics; the counters must be up to date."""
        return read_shadow(self.server, classify_only=self.trial.classify_only, has_failed=has_failed)

    def report(self, real: Configuration, now: int, error: str | None) -> "ShadowSnapshot":
        """Return the report, beside the ``real`` configuration; the counters must be up to date."""
        trial, places = self.trial, self.places
        facts = TrialFacts(
            trial.source,
            trial.classify_only,
            self.since,
            now - self.begun_at,
            places.unplaced,
            places.unestimated,
            find_caveats(real, trial.configuration, classify_only=trial.classify_only),
            error,
        )
        return report(self.server, facts)

    def __repr__(self) -> str:
        return f"<Shadow of {self.trial.source}: {self.server!r}>"


def _example(scope: Scope, user: str) -> ShadowExample:
    shown = (method_of(scope), path_of(scope), user)
    return ShadowExample(*(printable(one)[:_MOST_SHOWN] for one in shown))
