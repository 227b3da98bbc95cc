"""The configurations of our middleware in the benchmarks on the wire, as a user would write them in YAML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["CONFIGS", "TOKEN", "write_config"]

TOKEN: Final = "31ada4fd-adec-460c-809a-9e56ceb75269"  # noqa: S105 - of a made-up user

_KUBERNETES: Final = """
apiVersion: apf/v1
kind: Server
spec: {defaults: kubernetes}
"""

_ON_SEATS: Final = """
apiVersion: apf/v1
kind: Server
spec: {bodies: {holdSeats: true}}
"""

_FLEET: Final = """
apiVersion: apf/v1
kind: Server
spec:
  fleet: {store: host, directory: "{folder}"}
"""

# Few requests of one known flow: the cost is that of the authentication by token.
_TOKENS: Final = """
apiVersion: apf/v1
kind: Server
spec:
  authentication:
  - {type: tokens, file: "{folder}/tokens.csv"}
"""

# The catch-all level has shares too: beside so many for this one, they amount to a single seat in addition to the ten.
_SEATS: Final = """
apiVersion: apf/v1
kind: Server
spec: {{seats: 10, defaults: none, requestTimeout: 1h}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: tenants}}
spec:
  shares: 10000
  maxSeats: 10
  waitLimit: {wait_limit}
  queuing: {{queues: {queues}, handSize: {hand}, queueLengthLimit: {length}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: tenants}}
spec:
  level: tenants
  distinguisher: {{source: header, name: X-Tenant}}
  rules:
  - httpRules: [{{}}]
"""

_UNQUEUED: Final = """
apiVersion: apf/v1
kind: Server
spec: {seats: 10, defaults: none}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: tenants}
spec: {shares: 10000, maxSeats: 10, response: Reject}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: tenants}
spec:
  level: tenants
  rules:
  - httpRules: [{}]
"""

# Callers give up after a second: requests that can't be served by then should be rejected before.
_OVERLOAD: Final = _SEATS.format(wait_limit="800ms", queues="exact", hand=6, length=50)


def _with_seats(number: int) -> str:
    return _OVERLOAD.replace("seats: 10,", f"seats: {number},").replace("maxSeats: 10\n", f"maxSeats: {number}\n")


CONFIGS: Final[Mapping[str, str]] = {
    "kubernetes": _KUBERNETES,
    "tokens": _TOKENS,
    "on-seats": _ON_SEATS,
    "fleet": _FLEET,
    "contended": _SEATS.format(wait_limit="10m", queues=64, hand=8, length=50),
    "rejections": _SEATS.format(wait_limit="10m", queues="exact", hand=6, length=50),
    "unqueued": _UNQUEUED,
    "memory": _SEATS.format(wait_limit="10m", queues=64, hand=8, length=10_000),
    "overload": _OVERLOAD,
    "overload-sharded": _SEATS.format(wait_limit="800ms", queues=128, hand=6, length=50),
    "overload-small-hand": _SEATS.format(wait_limit="800ms", queues=128, hand=2, length=150),
    "overload-2-seats": _with_seats(2),
    "overload-3-seats": _with_seats(3),
    "overload-fleet-redis": _OVERLOAD.replace("seats: 10,", "seats: 10, fleet: {store: 'env:APF_BENCHMARK_REDIS'},"),
    "overload-fleet": _OVERLOAD.replace("seats: 10,", "seats: 10, fleet: {store: host, directory: '{folder}'},"),
}
"""By name; without a name the middleware has its defaults."""


def write_config(name: str, folder: Path) -> Path:
    """Write one of them, and the files that it refers to, to ``folder``."""
    (folder / "tokens.csv").write_text(f'{TOKEN},alice,1001,"staff,customers"\n')
    path = folder / f"{name}.yaml"
    path.write_text(CONFIGS[name].replace("{folder}", str(folder)))
    return path
