"""Static tokens: known ones authenticate, others reveal nothing, and the file can change."""

import hmac
import logging
from pathlib import Path

import pytest

from apf_middleware.asgi.identity import tokens as module
from apf_middleware.asgi.identity.tokens import TokenAuthenticator, read_tokens
from apf_middleware.asgi.identity.watched import BrokenLineError
from apf_middleware.classification import Identity
from apf_middleware.config.authentication import TokenSettings
from apf_middleware.exceptions import InvalidValueError
from tests.support.authentication import group_of, identity_of, reason_of, request
from tests.support.token_files import HASHED, Write, bearer


@pytest.mark.parametrize(
    ("token", "identity"),
    [
        ("secret-a", Identity("alice", group_of("staff", "admins"), "1")),
        ("secret-b", Identity("bob", group_of(), "2")),
        ("hidden", Identity("carol", group_of("one"), "3")),
        ("quoted,token", Identity("dave", group_of(), "4")),
    ],
)
def test_a_known_token_authenticates_its_user(tokens: TokenAuthenticator, token: str, identity: Identity) -> None:
    assert identity_of(tokens, request(bearer(token))) == identity


def test_tokens_can_be_given_in_python() -> None:
    alice = Identity("alice", ("staff",), "1", {"team": ("a",)})
    given = TokenAuthenticator({"one": alice, f"sha256:{HASHED}": Identity("bob")}, header="x-key")

    assert identity_of(given, request(("x-key", "one"))) == Identity("alice", group_of("staff"), "1", alice.extra)
    assert identity_of(given, request(("x-key", "hidden"))).name == "bob"
    assert not given.refresh()
    with pytest.raises(InvalidValueError, match="the token of bob") as error:
        TokenAuthenticator({"a secret": Identity("bob")})
    assert "a secret" not in str(error.value)


def test_comparison_takes_constant_time(tokens: TokenAuthenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(known: bytes, given: bytes) -> bool:
        compared.append((known, given))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)

    assert reason_of(tokens, request(bearer("hidden"))) == "unknown-token"
    assert compared == [(bytes.fromhex(HASHED), bytes.fromhex(HASHED))]


def test_each_process_looks_up_under_a_key_of_its_own(path: Path) -> None:
    one, other = (TokenAuthenticator(TokenSettings(str(path))) for _ in range(2))

    assert one._known.keys().isdisjoint(other._known.keys())


def test_no_token_is_kept_or_shown(tokens: TokenAuthenticator) -> None:
    kept = repr([getattr(tokens, name) for name in tokens.__slots__])

    assert "secret-a" not in kept + repr(tokens)
    assert "4 tokens" in repr(tokens)


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("secret-a,alice\n", 1, "not 2 columns"),
        ("a,b,c,d,e\n", 1, "not 5 columns"),
        ("secret-a,alice,1\nsecret-b,,2\n", 2, "user must not be empty"),
        ("secret-a,alice,1\n\nsecret-a,bob,2\n", 3, "twice"),
        (f"hidden,alice,1\nsha256:{HASHED},bob,2\n", 2, "twice"),
        ("sec ret,alice,1\n", 1, "visible ASCII"),
        (",alice,1\n", 1, "visible ASCII"),
        ("sha256:abc,alice,1\n", 1, "64 hexadecimal"),
        ('"secret-a,alice,1\n', 1, "CSV"),
        ("s\xfc\xdf,alice,1\n", 1, "visible ASCII"),
        ("token,user,uid\nsecret-a,alice,1\n", 1, "no line of headings"),
        ("Token, User, UID, Groups\n", 1, "no line of headings"),
    ],
)
def test_errors_in_a_file_name_the_line_without_its_secrets(text: str, line: int, rule: str) -> None:
    with pytest.raises(BrokenLineError, match=rule) as error:
        read_tokens(text.encode())

    assert error.value.line == line
    assert "secret" not in error.value.rule


def test_a_binary_file_is_reported_by_line() -> None:
    with pytest.raises(BrokenLineError, match="UTF-8") as error:
        read_tokens(b"a,b,c\n\xff,b,c\n")

    assert error.value.line == 2


def test_a_byte_order_mark_is_no_part_of_the_first_token() -> None:
    assert len(read_tokens(b"\xef\xbb\xbfhidden,b,c\n").keys() & {bytes.fromhex(HASHED)}) == 1


@pytest.mark.parametrize("name", ["missing.csv", "."])
def test_a_file_that_cannot_be_read_at_the_start_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^file is .*, but it must be (readable|a regular file)"):
        TokenAuthenticator(TokenSettings(str(tmp_path / name)))


def test_a_changed_file_is_read_again(tokens: TokenAuthenticator, write: Write) -> None:
    assert not tokens.refresh()
    write("secret-z,zoe,9\n")

    assert identity_of(tokens, request(bearer("secret-a"))).name == "alice"
    assert tokens.refresh()
    assert reason_of(tokens, request(bearer("secret-a"))) == "unknown-token"
    assert identity_of(tokens, request(bearer("secret-z"))).name == "zoe"
    assert not tokens.refresh()


def test_a_broken_file_leaves_the_old_tokens_and_is_reported_once(
    tokens: TokenAuthenticator, path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    write("secret-z,zoe,9\nsecret-y\n")
    assert tokens.source_state == ("token-file", False)
    for _ in range(3):
        assert not tokens.refresh()

    assert tokens.source_state == ("token-file", True)
    assert identity_of(tokens, request(bearer("secret-a"))).name == "alice"
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.__dict__["event"] == "apf.identity-file-rejected"
    assert set(record.__dict__["apf"]) == {"setting", "place", "error", "hint"}
    assert f"place={path}:2 " in record.getMessage()
    assert "until the file is fixed" in record.getMessage()
    assert "secret" not in record.getMessage()

    write("secret-z,zoe,9\n")
    assert tokens.refresh()
    assert tokens.source_state == ("token-file", False)
    assert identity_of(tokens, request(bearer("secret-z"))).name == "zoe"


def test_a_missing_file_leaves_the_old_tokens_and_is_reported_once(
    tokens: TokenAuthenticator, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.unlink()
    for _ in range(3):
        assert not tokens.refresh()

    assert identity_of(tokens, request(bearer("secret-a"))).name == "alice"
    [record] = caplog.records
    assert f"place={path} error=it must be readable" in record.getMessage()

    path.write_text("secret-z,zoe,9\n")
    assert tokens.refresh()
    assert identity_of(tokens, request(bearer("secret-z"))).name == "zoe"


def test_the_digest_is_not_taken_from_what_a_caller_sends() -> None:
    assert module._digest(f"sha256:{HASHED}") == module._digest("hidden")
