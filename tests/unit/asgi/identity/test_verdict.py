"""The reasons of refusals."""

from apf_middleware.asgi.identity.chain import NOT_MINE
from apf_middleware.asgi.identity.verdict import DESCRIPTIONS


def test_reasons_that_are_not_final_are_among_the_known() -> None:
    assert DESCRIPTIONS.keys() >= NOT_MINE
    assert all(word.replace("-", "").isalpha() for word in DESCRIPTIONS)
