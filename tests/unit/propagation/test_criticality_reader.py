"""Who may claim what: everybody less than usual, and those who are trusted more."""

import pytest

from apf_middleware.criticality import Criticality
from apf_middleware.propagation.criticality_reader import CriticalityReader

LEAST, BATCH, USUAL, MOST = Criticality


def reader() -> CriticalityReader:
    return CriticalityReader({"x-criticality": "name", "priority": "urgency"}, USUAL)


@pytest.mark.parametrize(
    ("headers", "is_trusted", "found"),
    [
        ([], False, USUAL),
        ([(b"accept", b"*/*")], True, USUAL),
        ([(b"x-criticality", b"sheddable")], False, LEAST),
        ([(b"x-criticality", b"critical")], False, USUAL),
        ([(b"x-criticality", b"criticalPlus")], False, USUAL),
        ([(b"x-criticality", b"criticalPlus")], True, MOST),
        ([(b"x-criticality", b"criticalPlus"), (b"priority", b"u=5")], True, BATCH),
        ([(b"x-criticality", b"criticalPlus"), (b"x-criticality", b"sheddable")], True, LEAST),
        ([(b"x-criticality", b"urgent, sheddable")], False, LEAST),  # nonsense doesn't hide what a proxy has added
        ([(b"priority", b"i")], True, USUAL),
        ([(b"x-criticality", b"urgent"), (b"priority", b"u=0")], True, MOST),
    ],
)
def test_the_least_claim_counts(headers: list[tuple[bytes, bytes]], is_trusted: bool, found: Criticality) -> None:  # noqa: FBT001
    assert reader().read(headers, is_trusted=is_trusted) is found


def test_of_many_headers_the_last_count_because_proxies_add_theirs_at_the_end() -> None:
    one = reader()
    headers = [(b"x-criticality", b"urgent")] * 4000

    assert one.read([*headers, (b"x-criticality", b"sheddable")], is_trusted=False) is LEAST
    assert one.read([(b"x-criticality", b"sheddable"), *headers], is_trusted=False) is USUAL
    assert one.invalid == {"x-criticality": 31 + 32}


def test_what_is_ignored_is_counted() -> None:
    one = reader()
    for value in (b"urgent", b"criticalPlus", b"criticalPlus", b"sheddable"):
        one.read([(b"x-criticality", value)], is_trusted=False)

    assert one.invalid == {"x-criticality": 1}
    assert one.lowered == {"criticalPlus": 2}
