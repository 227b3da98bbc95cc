"""Requests leave no memory behind, however they end; `benchmarks.leaks` measures the same with a million of them."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUESTS = 2000
KINDS = {
    "admitted": "at-once",
    "queued": "after-wait",
    "rejected": "concurrency-limit",
    "cancelled": "cancelled",
    "hung-up": "cancelled",
}


def test_requests_leave_nothing_behind() -> None:
    options = ["--json", f"--requests={REQUESTS}", f"--warm-up={REQUESTS}", "--kinds", *KINDS]
    command = [sys.executable, "-m", "benchmarks.leaks", *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100)
    rows = json.loads(result.stdout)

    assert {row["kind"]: row["outcome"] for row in rows} == KINDS
    assert {row["requests"] for row in rows} == {REQUESTS}
    for row in rows:
        # One object that each request left would be as many blocks as requests; free lists come to some ten.
        assert row["blocks"] < REQUESTS / 4, row
