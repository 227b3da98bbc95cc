"""Deadlines on real servers: in curl's hands, and from service to service."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support.prerequisites import require_program
from tests.support.servers import serve

pytestmark = pytest.mark.timeout(90)

CONFIG = """
apiVersion: apf/v1
kind: Server
spec: {seats: 1, defaults: none, deadlines: {}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {name: web}
spec: {shares: 100, waitLimit: 60s}
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


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "apf.yaml"
    path.write_text(CONFIG)
    return str(path)


def curl(url: str, *headers: str) -> tuple[int, str]:
    options = [option for header in headers for option in ("-H", header)]
    command = ["curl", "-s", "-w", "\n%{http_code}", *options, url]
    body, _, status = subprocess.run(command, capture_output=True, check=True, text=True).stdout.rpartition("\n")
    return int(status), body


def test_a_request_waits_no_longer_than_its_deadline(config: str) -> None:
    require_program("curl", "curl")
    with serve("tests.e2e.deadline_app:app", environment={"DEADLINE_CONFIG": config}, ready="/left") as server:
        slow, metrics = server.url + "/slow", server.url + "/metrics"
        with ThreadPoolExecutor(2) as clients:
            holding = clients.submit(curl, slow)
            while 'apf_current_executing_requests{flow_schema="all",priority_level="web"} 1' not in curl(metrics)[1]:
                assert not holding.done(), holding.result()
            patient = clients.submit(curl, slow, "grpc-timeout: 60S")
            status, body = curl(slow, "grpc-timeout: 300m")
            hurried = json.loads(body)
            assert (status, hurried["reason"], hurried["status"]) == (504, "deadline", 504)
            assert hurried["waited"] >= 0.25
            assert curl(slow, "grpc-timeout: 0m")[0] == 504
            assert not holding.done()
            assert curl(server.url + "/free")[0] == 200
            assert (holding.result()[0], patient.result()[0]) == (200, 200)
        rejected = 'apf_rejected_requests_total{flow_schema="all",priority_level="web",reason="deadline"} 2'
        assert rejected in curl(metrics)[1]


def test_each_service_on_the_way_learns_what_is_left(config: str) -> None:
    with ExitStack() as stack:
        environment = {"DEADLINE_CONFIG": config}
        first, second, third = (
            stack.enter_context(serve("tests.e2e.deadline_app:app", environment=environment, ready="/left"))
            for _ in range(3)
        )
        url = f"{first.url}/ask?of={second.url}/ask?of={third.url}/left"
        answer = httpx.get(url, headers={"grpc-timeout": "30S"}, trust_env=False, timeout=60)
        _, (_, beyond) = answer.json()
        assert 0 < beyond < 30 - 2 * 0.1, "the two before it have taken some of the time"
        hurried = httpx.get(url, headers={"grpc-timeout": "100m"}, trust_env=False, timeout=60)
        assert hurried.status_code == 500, "no time was left for a call"
