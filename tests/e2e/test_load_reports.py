"""A real server tells balancers how busy it is, and whether it should get requests."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.servers import serve

pytestmark = pytest.mark.timeout(90)

CONFIG = """
apiVersion: apf/v1
kind: Server
spec:
  seats: 1
  defaults: none
  loadReports: {header: text, forEverybody: true, path: /load}
  readiness: {levels: [web], after: 500ms, recover: 500ms}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {shares: 100, response: Reject}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: free}
spec: {level: exempt, precedence: 2, rules: [{httpRules: [{paths: [/free]}]}]}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {name: all}
spec: {level: web, rules: [{httpRules: [{}]}]}
"""


def test_a_busy_server_says_so_and_recovers(tmp_path: Path) -> None:
    config = tmp_path / "apf.yaml"
    config.write_text(CONFIG)
    environment = {"DEADLINE_CONFIG": str(config)}
    with (
        serve("tests.e2e.deadline_app:app", environment=environment, ready="/readyz") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client,
        ThreadPoolExecutor(1) as others,
    ):
        assert client.get("/readyz").json() == {"ready": True, "closing": False, "rejecting": {}}
        slow = others.submit(httpx.get, server.url + "/slow", trust_env=False, timeout=60)
        ready, rejected = client.get("/readyz"), client.get("/left")
        text = ""
        while ready.status_code == 200 or "eps=" not in text:  # rates are known after a second
            rejected = client.get("/left")
            ready, text = client.get("/readyz"), rejected.headers["endpoint-load-metrics"]
            time.sleep(0.05)
        assert ready.status_code == 503
        assert ready.json()["rejecting"].keys() == {"web"}
        assert rejected.status_code == 429
        assert text.startswith("TEXT ")
        found = dict(pair.split("=") for pair in text.removeprefix("TEXT ").split(","))
        assert 0 < float(found["application_utilization"]) <= 1
        assert float(found["eps"]) > 0
        assert client.get("/load").json()["application_utilization"] > 0
        assert not slow.done()
        assert client.get("/free").status_code == 200
        assert slow.result().status_code == 200
        time.sleep(0.6)
        assert client.get("/readyz").status_code == 200
        assert client.get("/left").status_code == 200
