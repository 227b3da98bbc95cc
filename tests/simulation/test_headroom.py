"""Short requests beside ones that take a hundred times as long, with and without headroom."""

from dataclasses import replace

import pytest

from benchmarks import headroom
from benchmarks.headroom import CASES, HeadroomOutcome, HeadroomWorld

pytestmark = pytest.mark.timeout(300)


def run(name: str, part: int) -> HeadroomOutcome:
    return HeadroomWorld(replace(CASES[name], seconds=50), part).run()


@pytest.mark.parametrize("name", ["flows", "one flow"])
def test_short_requests_hardly_wait_and_long_ones_keep_their_part(name: str) -> None:
    without, found = run(name, 0), run(name, 20)

    assert without.wait_ms(0.99) > 500
    assert found.wait_ms(0.99) < 50
    assert found.most_long == 8
    assert found.long_ends > 0.7 * without.long_ends
    assert found.rejected == 0


def test_seats_are_not_kept_while_no_short_requests_come() -> None:
    without, found = run("pauses", 0), run("pauses", 20)

    assert found.most_long == 10
    assert found.long_ends > 0.9 * without.long_ends
    assert found.wait_ms(0.9) < without.wait_ms(0.9)


def test_where_all_requests_are_alike_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headroom, "_WARM_UP_NS", 10**9)
    without, found = (HeadroomWorld(replace(CASES["equal"], seconds=6), part).run() for part in (0, 20))

    assert found.waits == without.waits
    assert found.long_ends == without.long_ends > 1000
