"""Seats that linger after a reply come free on time, also on a server that has nothing else to do."""

import time
from pathlib import Path

import httpx
import pytest

from tests.support.servers import Server, serve

pytestmark = pytest.mark.timeout(60)

CONFIG = """
apiVersion: apf/v1
kind: Server
spec:
  seats: 10
  defaults: none
  estimation: {default: {source: constant, finalSeats: 1, linger: 4s}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {shares: 100}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: everybody}
spec: {level: web, rules: [{httpRules: [{}]}]}
"""


def seats_in_use(server: Server) -> float:
    lines = httpx.get(f"{server.url}/metrics", timeout=60, trust_env=False).text.splitlines()
    found = [line for line in lines if line.startswith("apf_current_executing_seats{")]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def test_a_closed_queue_is_closed_when_the_last_linger_ends(tmp_path: Path) -> None:
    (tmp_path / "apf.yaml").write_text(CONFIG)
    sockets = tmp_path / "run"
    environment = {"APF_TEST_CONFIG": str(tmp_path / "apf.yaml"), "APF_RUNTIME_DIR": str(sockets)}
    sockets.mkdir()
    with serve("tests.e2e.playground:app", environment=environment, ready="/tell") as server:
        [path] = sockets.iterdir()
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://apf") as owner:
            httpx.get(f"{server.url}/who", timeout=60, trust_env=False)
            assert seats_in_use(server) > 0
            closed = owner.post("/queues/web/close", json={})
            assert (closed.status_code, closed.json()["queue"]["state"]) == (200, "Closing")

            time.sleep(4.5)

            assert seats_in_use(server) == 0
            assert owner.get("/queues/web").json()["queue"]["state"] == "Closed"
            assert owner.delete("/queues/web").status_code == 200
