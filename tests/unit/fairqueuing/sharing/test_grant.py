"""A grant is a frozen value with checked numbers, and is followed by its fallback."""

import pickle

import pytest

from apf_middleware.exceptions import InvalidValueError
from apf_middleware.fairqueuing.sharing.grant import LEASED_FOR_EVER, LevelGrant, SeatGrant
from tests.support.builds import raises_for_wrong_type

GRANT = SeatGrant(8, 500, 2, {"web": LevelGrant(1024, 3)})


def test_after_its_lease_a_grant_is_its_fallback() -> None:
    assert GRANT.lapsed() == SeatGrant(2, LEASED_FOR_EVER, 2, {})
    assert GRANT.lapsed().lapsed() == GRANT.lapsed()


def test_a_grant_can_be_copied() -> None:
    assert pickle.loads(pickle.dumps(GRANT)) == GRANT  # noqa: S301


@pytest.mark.parametrize(("name", "value"), [("seats", -1), ("lease_until", 1.5), ("fallback", -1)])
def test_wrong_numbers_are_refused(name: str, value: object) -> None:
    with raises_for_wrong_type(name):
        SeatGrant(**{"seats": 1, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("weight", "least"), [(-1, 0), (1, -1)])
def test_wrong_parts_are_refused(weight: int, least: int) -> None:
    with pytest.raises(InvalidValueError):
        LevelGrant(weight, least)
