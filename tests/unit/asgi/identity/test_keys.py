"""Keys from a URL: with a real server, real threads, and a clock that the tests set."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest

from apf_middleware.asgi.identity.jwt import JwtAuthenticator
from apf_middleware.asgi.identity.keys import MAX_BYTES, RETRY_SECONDS, FetchedKeys
from apf_middleware.config.authentication import JwtSettings
from tests.support.authentication import identity_of, reason_of, request, rsa_key

NOW = 1_000_000.0
OLD, NEW = rsa_key("one"), rsa_key("other")
PUBLIC = [
    json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": kid}
    for key, kid in ((OLD, "old"), (NEW, "new"))
]


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


class Issuer:
    """A server of keys, whose status and body can be changed."""

    def __init__(self) -> None:
        self.status = 200
        self.body = jwks(PUBLIC[0])
        self.headers: dict[str, str] = {}
        self.asked: list[str] = []
        self.threads: list[str] = []
        self.release = threading.Event()
        self.release.set()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.release.wait(20)
                self.send_response(issuer.status)
                for name, value in ({"content-length": str(len(issuer.body))} | issuer.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(issuer.body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.release.set()
    made.server.shutdown()
    made.server.server_close()
    thread.join()


class World:
    """An authenticator with a clock that the tests set."""

    def __init__(self, url: str) -> None:
        self.now = 0.0
        settings = JwtSettings(("RS256",), "issuer", jwks_url=url, jwks_interval_ns=300 * 10**9)
        self.tokens = JwtAuthenticator(settings, clock=lambda: NOW, monotonic=lambda: self.now)
        source = self.tokens._source
        assert isinstance(source, FetchedKeys)
        self.source = source

    def fetched(self) -> bool:
        """Wait for the end of the current fetch, and apply its result."""
        thread = self.source._thread
        thread.join(20)
        assert not thread.is_alive()
        return self.tokens.refresh()

    def passed(self, seconds: float) -> bool:
        """Advance the clock, refresh once to start the fetch that is due, and once more to apply its result."""
        self.now += seconds
        self.tokens.refresh()
        return self.fetched()

    def says(self, key: Any, kid: str | None) -> str:  # noqa: ANN401
        headers = None if kid is None else {"kid": kid}
        token = jwt.encode({"iss": "issuer", "sub": "alice", "exp": NOW + 60}, key, "RS256", headers=headers)
        scope = request(("authorization", f"Bearer {token}"))
        verdict = self.tokens.authenticate(scope)
        reason = getattr(verdict, "reason", "")
        assert (reason_of if reason else identity_of)(self.tokens, scope)
        return reason


def test_before_the_first_success_tokens_are_refused_for_want_of_keys(issuer: Issuer) -> None:
    issuer.release.clear()
    world = World(issuer.url)

    assert not world.tokens.refresh()
    assert world.says(OLD, "old") == "keys-unavailable"
    issuer.release.set()
    world.source._thread.join(20)
    assert world.says(OLD, "old") == "", "the first keys are in force before the next refresh, up to a second later"
    assert not world.tokens.refresh(), "no answer was cached before"
    assert issuer.asked == ["/keys"]


def test_keys_without_tls_are_not_fetched_through_a_proxy(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    world = World(issuer.url)
    world.fetched()

    assert world.says(OLD, "old") == ""


def test_the_fetch_is_never_on_the_caller_s_thread(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    fetching: list[threading.Thread] = []
    fetch = FetchedKeys._fetch

    def watched(source: FetchedKeys) -> None:
        fetching.append(threading.current_thread())
        fetch(source)

    monkeypatch.setattr(FetchedKeys, "_fetch", watched)
    World(issuer.url).fetched()

    assert [(one is threading.current_thread(), one.daemon) for one in fetching] == [(False, True)]


def test_keys_are_fetched_again_at_the_interval(issuer: Issuer) -> None:
    world = World(issuer.url)
    world.fetched()
    issuer.body = jwks(PUBLIC[1])

    assert not world.passed(299)
    assert len(issuer.asked) == 1
    assert world.passed(1)
    assert len(issuer.asked) == 2
    assert world.says(OLD, "old") == "unknown-key"
    assert world.says(NEW, "new") == ""


def test_the_same_keys_change_nothing(issuer: Issuer) -> None:
    world = World(issuer.url)
    world.fetched()

    assert not world.passed(300)
    assert len(issuer.asked) == 2


def test_an_unknown_key_is_asked_for_but_never_more_often_than_the_limit(issuer: Issuer) -> None:
    world = World(issuer.url)
    world.fetched()
    issuer.body = jwks(*PUBLIC)

    for number in range(40):
        assert world.says(NEW, f"invented-{number}") == "unknown-key"
        assert not world.passed(RETRY_SECONDS / 80)
    assert len(issuer.asked) == 1

    assert world.says(NEW, "new") == "unknown-key"
    assert world.passed(RETRY_SECONDS / 2)
    assert len(issuer.asked) == 2
    assert world.says(NEW, "new") == ""
    assert world.says(OLD, "old") == ""


def test_a_new_key_is_asked_for_although_the_known_one_has_no_id(issuer: Issuer) -> None:
    issuer.body = jwks({name: value for name, value in PUBLIC[0].items() if name != "kid"})
    world = World(issuer.url)
    world.fetched()
    assert world.says(OLD, "old") == ""
    issuer.body = jwks(PUBLIC[1])

    assert world.says(NEW, "new") == "unknown-key"
    assert world.passed(RETRY_SECONDS)
    assert world.tokens.source_state == ("jwks-url", False)
    assert world.says(NEW, "new") == ""


@pytest.mark.parametrize("kid", [None, "old"])
def test_a_replaced_key_is_asked_for_if_tokens_do_not_name_the_new_one(issuer: Issuer, kid: str | None) -> None:
    world = World(issuer.url)
    world.fetched()
    assert world.says(OLD, kid) == ""
    issuer.body = jwks(PUBLIC[1] | {"kid": "old"})

    assert world.says(NEW, kid) == "bad-signature"
    assert world.passed(RETRY_SECONDS)
    assert world.says(NEW, kid) == ""


def test_without_an_unknown_key_nothing_is_asked_before_time(issuer: Issuer) -> None:
    world = World(issuer.url)
    world.fetched()
    world.says(OLD, "old")

    assert not world.passed(RETRY_SECONDS * 2)
    assert len(issuer.asked) == 1


def test_a_name_of_a_key_never_becomes_part_of_a_url(issuer: Issuer) -> None:
    world = World(issuer.url)
    world.fetched()
    world.says(NEW, "../../admin?x=1")
    world.passed(RETRY_SECONDS)

    assert set(issuer.asked) == {"/keys"}


Answer = tuple[int, bytes, dict[str, str]]
FAILURES: list[tuple[Answer, str]] = [
    ((500, b"", {}), "500"),
    ((404, jwks(PUBLIC[1]), {}), "404"),
    ((200, b"<html>", {}), "JSON"),
    ((200, jwks(), {}), "none of its 0 keys"),
    ((200, b" " * (MAX_BYTES + 1), {}), "not be longer"),
    ((302, b"", {"location": "http://127.0.0.1:9/"}), "must not redirect"),
    ((200, b"{", {"content-length": "100000", "connection": "close"}), "JSON"),
]


@pytest.mark.parametrize(("answer", "why"), FAILURES)
def test_any_failure_leaves_the_old_keys(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, answer: Answer, why: str
) -> None:
    world = World(issuer.url)
    world.fetched()
    issuer.status, issuer.body, issuer.headers = answer

    assert world.tokens.source_state == ("jwks-url", False)
    assert not world.passed(300)
    assert world.tokens.source_state == ("jwks-url", True)
    assert world.source.failures == 1
    assert world.says(OLD, "old") == ""
    [record] = caplog.records
    assert record.__dict__["event"] == "apf.identity-keys-unavailable"
    assert set(record.__dict__["apf"]) == {"url", "error", "failures", "hint"}
    assert why in record.getMessage()
    assert issuer.url in record.getMessage()

    issuer.status, issuer.body, issuer.headers = 200, jwks(PUBLIC[1]), {}
    assert world.passed(RETRY_SECONDS)
    assert world.says(NEW, "new") == ""


def test_an_unreachable_issuer_is_asked_with_growing_pauses(issuer: Issuer) -> None:
    issuer.status = 503
    world = World(issuer.url)
    world.fetched()
    tries = []
    for second in range(1, 1200):
        before = len(issuer.asked)
        world.passed(1)
        if len(issuer.asked) > before:
            tries.append(second)

    assert tries == [10, 30, 70, 150, 310, 610, 910]
    assert world.source.failures == 8
    assert world.says(OLD, "old") == "keys-unavailable"
    issuer.status = 200
    world.passed(11)
    assert world.says(OLD, "old") == ""


def test_an_unreachable_issuer_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    world = World("http://127.0.0.1:9/keys")

    assert not world.fetched()
    assert world.says(OLD, "old") == "keys-unavailable"
    assert world.source.failures == 1
    assert "no keys yet" in repr(world.tokens)
    assert "next try in 10 s" in caplog.text


def test_one_fetch_at_a_time(issuer: Issuer) -> None:
    issuer.release.clear()
    world = World(issuer.url)
    for _ in range(5):
        world.now += 400
        assert not world.tokens.refresh()
    issuer.release.set()
    world.fetched()

    assert world.source.fetches == 1


@pytest.mark.parametrize("status", [200, 503])
def test_pauses_count_from_the_end_of_a_slow_fetch(issuer: Issuer, status: int) -> None:
    issuer.release.clear()
    issuer.status = status
    world = World(issuer.url)
    world.now = 25
    issuer.release.set()
    world.fetched()
    if status == 200:
        assert world.says(NEW, "invented") == "unknown-key"  # which requests an early fetch

    for _ in range(9):
        world.passed(1)
    assert len(issuer.asked) == 1
    world.passed(1)
    assert len(issuer.asked) == 2
