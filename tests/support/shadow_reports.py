"""Reports about configurations that are tried, as tests need them."""

from typing import Any

from apf_middleware.counters import DURATION_BOUNDS_NS, Histogram
from apf_middleware.runtime.shadow.report import summarize_waits
from apf_middleware.snapshots.shadow import (
    ShadowDecisions,
    ShadowDifference,
    ShadowExample,
    ShadowFlowSnapshot,
    ShadowLevelSnapshot,
    ShadowSchemaSnapshot,
    ShadowSnapshot,
    ShadowWaits,
)

__all__ = ["shadow_report", "waits"]

MS = 10**6


def waits(*milliseconds: int) -> ShadowWaits:
    found = Histogram(DURATION_BOUNDS_NS)
    for wait in milliseconds:
        found.observe(wait * MS)
    return summarize_waits(found)


def level(name: str, **more: Any) -> ShadowLevelSnapshot:  # noqa: ANN401 - fields of several types
    fields: dict[str, Any] = dict.fromkeys(("nominal", "min", "seats_in_use", "peak", "waiting", "at_once"), 0)
    fields |= {"exempt": False, "max": None, "average": 0.0, "waits": waits(10, 30), "rejected": {"time-out": 2}}
    return ShadowLevelSnapshot(level=name, **fields | more)


def shadow_report(user: str = "alice", **more: Any) -> ShadowSnapshot:  # noqa: ANN401 - fields of several types
    """Return the report of one worker."""
    fields: dict[str, Any] = {
        "state": "running",
        "source": "new.yaml",
        "classify_only": False,
        "since": 1000.0,
        "seconds": 60.0,
        "lag": 0.0,
        "requests": 100,
        "otherwise": 10,
        "unplaced": 0,
        "unestimated": 0,
        "decided": 90,
        "agreeing": 80,
        "assumed": 0,
        "seats": 20,
        "decisions": (ShadowDecisions("at-once", "at-once", 80), ShadowDecisions("at-once", "waited", 10)),
        "differences": (
            ShadowDifference("all", "web", "reports", "batch", 10, (ShadowExample("GET", "/reports/7", user),)),
        ),
        "levels": (
            level("batch", nominal=8, min=2, max=20, seats_in_use=3, average=1.5, peak=8, waiting=1, at_once=5),
            level("exempt", exempt=True, waits=waits(), rejected={}),
        ),
        "schemas": (ShadowSchemaSnapshot("batch", "reports", 10, 10, 5, waits(10, 30), {"time-out": 2}, 9, 8, 1),),
        "flows": (ShadowFlowSnapshot("batch", "reports", user, 10, 10, waits(10, 30), {"time-out": 2}),),
        "forgotten_flows": 0,
        "caveats": ("Durations are those of the real server.",),
    }
    return ShadowSnapshot(**fields | more)
