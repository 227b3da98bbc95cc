"""The credential in a header."""

from pathlib import Path

import pytest

from apf_middleware.asgi.identity.tokens import TokenAuthenticator
from apf_middleware.config.authentication import TokenSettings
from tests.support.authentication import identity_of, reason_of, request, verdict_of
from tests.support.token_files import HASHED, bearer


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_be_written_in_any_case(tokens: TokenAuthenticator, scheme: str) -> None:
    assert identity_of(tokens, request(("authorization", f"{scheme}  secret-b "))).name == "bob"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("Bearer secret-c", "unknown-token"),
        ("Bearer SECRET-A", "unknown-token"),
        ("Bearer secret-a,alice", "unknown-token"),
        (f"Bearer sha256:{HASHED}", "unknown-token"),
        (f"Bearer {HASHED}", "unknown-token"),
        ("Bearer", "malformed"),
        ("Bearer ", "malformed"),
        ("Bearer secret-a secret-b", "malformed"),
        ("Bearer secret-\xe4", "malformed"),
        (b"Bearer \xff\xfe", "malformed"),
        ("Bearer secret-a\0", "malformed"),
        ("Bearer\tsecret-a", "malformed"),
        (" Bearer secret-a", "malformed"),
        ("", "malformed"),
        ("x" * 100, "malformed"),
        ("Bearer " + "x" * 20_000, "too-long"),
    ],
)
def test_bad_credentials_are_refused_and_not_repeated(
    tokens: TokenAuthenticator, value: str | bytes, reason: str
) -> None:
    scope = request(("authorization", value))

    assert reason_of(tokens, scope) == reason
    assert "secret" not in repr(verdict_of(tokens, scope))


@pytest.mark.parametrize("value", ["Basic c2VjcmV0LWE6", "Negotiate abc", "Digest", "Bearers secret-a"])
def test_credentials_of_other_schemes_are_ignored(tokens: TokenAuthenticator, value: str) -> None:
    assert identity_of(tokens, request(("authorization", value))).name == "system:anonymous"


def test_two_headers_are_refused_even_if_both_are_right(tokens: TokenAuthenticator) -> None:
    assert reason_of(tokens, request(bearer("secret-a"), bearer("secret-a"))) == "duplicate-header"
    assert reason_of(tokens, request(bearer("secret-a"), ("authorization", "Basic x"))) == "duplicate-header"


def test_an_api_key_has_a_header_of_its_own(path: Path) -> None:
    keys = TokenAuthenticator(TokenSettings(str(path), "x-api-key"))

    assert keys.headers == {b"x-api-key"}
    assert identity_of(keys, request(("x-api-key", "secret-a"))).name == "alice"
    assert reason_of(keys, request(("x-api-key", "Bearer secret-a"))) == "malformed"
    assert identity_of(keys, request(bearer("secret-a"))).name == "system:anonymous"
    assert verdict_of(keys, request(("x-api-key", "no"))).challenge.startswith('ApiKey realm="apf"')  # type: ignore[union-attr]
