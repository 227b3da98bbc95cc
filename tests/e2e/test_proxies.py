"""What real proxies say about requests is believed: how long they have waited, may take, and how critical they are."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.proxies import haproxy, nginx
from tests.support.servers import Server, serve

pytestmark = pytest.mark.timeout(90)

CONFIG = """
apiVersion: apf/v1
kind: Server
spec:
  seats: 10
  defaults: none
  deadlines: {headers: {grpc-timeout: grpc, x-timeout: seconds}, extendTo: 30s}
  criticality: {}
  trustedProxies: {networks: [127.0.0.1/32]}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {shares: 100, deadline: 10s}
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

ELSEWHERE = "127.0.0.2"
"""The address of a client that is no proxy."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    config = tmp_path / "apf.yaml"
    config.write_text(CONFIG)
    environment = {"DEADLINE_CONFIG": str(config)}
    with serve("tests.e2e.deadline_app:app", "--no-proxy-headers", environment=environment, ready="/left") as running:
        yield running


def get(url: str, *, address: str | None = None, **headers: str) -> tuple[int, Any]:
    """Return the status, and the JSON of the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    transport = httpx.HTTPTransport(local_address=address)
    with httpx.Client(transport=transport, timeout=60, trust_env=False) as client:
        answer = client.get(url, headers=named)
    return answer.status_code, json.loads(answer.content) if "json" in answer.headers["content-type"] else answer.text


def test_the_time_in_the_queue_of_a_proxy_counts(server: Server, tmp_path: Path) -> None:
    """HAProxy lets one request run at a time, and the first one takes 3 seconds more."""
    rules = "http-request set-header X-Request-Start t=%[date(0,us)]"
    with haproxy(server, tmp_path, rules) as proxy, ThreadPoolExecutor(3) as clients:
        slow = clients.submit(get, proxy.url + "/slow")
        while get(server.url + "/running")[1] < 2:  # beside this one
            assert not slow.done(), slow.result()
        hurried = clients.submit(get, proxy.url + "/known", grpc_timeout="1S")
        patient = clients.submit(get, proxy.url + "/known", grpc_timeout="25S")
        time.sleep(3)
        get(server.url + "/free")

        assert slow.result() == (200, "done")
        status, problem = hurried.result()
        assert (status, problem["reason"]) == (504, "deadline"), "it waited longer in the proxy"
        status, known = patient.result()
        assert status == 200
        assert known["left"] < 23, "it waited for 2 s and more"


def test_a_client_can_t_say_that_it_waited(server: Server) -> None:
    """Only a proxy is believed: an early start would be an easy way to keep a request from being served."""
    claimed = {"grpc_timeout": "9S", "x_request_start": f"t={time.time() - 5}"}
    _, known = get(server.url + "/known", address=ELSEWHERE, **claimed)
    _, told_by_a_proxy = get(server.url + "/known", **claimed)
    assert known["left"] > 5
    assert told_by_a_proxy["left"] < 4


RULES = """
    proxy_set_header X-Request-Start "t=${msec}";
    proxy_set_header X-Criticality   "";
    proxy_set_header X-Timeout       "";
    location / { proxy_pass http://app; }
    location /payments/ {
      proxy_set_header X-Request-Start "t=${msec}";
      proxy_set_header X-Criticality   criticalPlus;
      proxy_set_header X-Timeout       25;
      proxy_pass http://app/;
    }
"""


def test_a_proxy_says_how_critical_a_request_is_and_how_long_it_may_take(server: Server, tmp_path: Path) -> None:
    claimed = {"x_criticality": "criticalPlus", "x_timeout": "25"}
    with nginx(server, tmp_path, RULES) as proxy:
        _, plain = get(proxy.url + "/known", **claimed)
        _, payment = get(proxy.url + "/payments/known")
        _, hurried = get(proxy.url + "/payments/known", grpc_timeout="2S")
        _, direct = get(server.url + "/known", address=ELSEWHERE, **claimed)

    assert plain["criticality"] == direct["criticality"] == "critical"
    assert plain["left"] <= 10
    assert direct["left"] <= 10, "without the proxy, nobody has more time than the level gives"
    assert payment["criticality"] == "criticalPlus"
    assert 20 < payment["left"] <= 25
    assert hurried["left"] <= 2, "the shortest limit counts"
