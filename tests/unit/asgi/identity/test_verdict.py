"""The reasons of refusals."""

import pytest

from apf_middleware.asgi.identity import refuse
from apf_middleware.asgi.identity.chain import NOT_MINE
from apf_middleware.asgi.identity.verdict import DESCRIPTIONS
from apf_middleware.exceptions import InvalidValueError


def test_reasons_that_are_not_final_are_among_the_known() -> None:
    assert DESCRIPTIONS.keys() >= {*NOT_MINE}
    assert all(word.replace("-", "").isalpha() for word in DESCRIPTIONS)


def test_a_reason_of_the_app_s_own_needs_a_challenge_of_its_own() -> None:
    with pytest.raises(InvalidValueError, match=r"reason is 'revoked', .* Return Refused\(challenge, reason\)"):
        refuse("revoked", "ApiKey")
