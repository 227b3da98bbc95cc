"""The benchmark of reclaiming seats says what it promises, and an owner is back as soon as that is possible."""

import json

import pytest

from benchmarks import reclaim


def test_an_owner_gets_its_seats_back_within_the_residual_service_time() -> None:
    found = {row["mode"]: row for row in reclaim.rows(["constant 1 s"], seeds=2)}

    assert found["immediate"]["ratio"] <= 1.2
    assert found["immediate"]["used"] <= 100
    assert found["revoked"]["back_s"] <= 0.1 * found["immediate"]["back_s"]
    assert found["periodic"]["back_s"] > 2 * found["immediate"]["back_s"]


def test_reclaim_prints_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(reclaim, "rows", lambda: [{"mode": "immediate", "ratio": 0.9}])
    reclaim.main(["--json"])

    assert json.loads(capsys.readouterr().out) == [{"mode": "immediate", "ratio": 0.9}]
