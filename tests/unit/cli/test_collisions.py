"""The command ``apf collisions``."""

import json
from collections.abc import Callable

import pytest

from tests.support.command_line import Outcome

Apf = Callable[..., Outcome]


def test_collisions_are_reported_as_text_and_as_json(apf: Apf) -> None:
    text = apf("collisions", "--queues", "64", "--hand", "6", "--elephants", "4")
    rows = json.loads(apf("collisions", "--queues", "64", "--hand", "6", "--elephants", "4", "-o", "json").stdout)

    assert "64 queues, hands of 6, 36 bits of entropy" in text.stdout
    assert "4  0.000747" in text.stdout
    assert [row["elephants"] for row in rows] == [1, 2, 3, 4]
    assert rows[3]["covered"] == pytest.approx(7.47e-4, rel=1e-3)
