"""The console's panels for recordings and for a shadow, with answers that the tests give instead of a server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser, Page
from tests.support.console_shop import APP, CONFIG, CONSOLE, OPERATOR, READER
from tests.support.servers import Server, serve

pytestmark = pytest.mark.timeout(240)

WAITS = {"requests": 40, "mean": 0.1, "p50": 0.05, "p90": 0.2, "p99": 0.5, "buckets": []}
SHADOW: dict[str, Any] = {
    "state": "running",
    "source": "new.yaml",
    "classify_only": False,
    "seconds": 90,
    "requests": 1234,
    "otherwise": 34,
    "decided": 1000,
    "agreeing": 999,
    "levels": [
        {"level": "crowd", "average": 7.25, "peak": 9, "waits": WAITS, "rejected": {"time-out": 3, "queue-full": 4}}
    ],
    "differences": [
        {
            "real_schema": "customers",
            "real_level": "crowd",
            "schema": "pages",
            "level": "interactive",
            "requests": 34,
            "examples": [{"method": "GET", "path": "/web/<b>7</b>", "user": "alice"}],
        }
    ],
    "caveats": ["Durations are those of the real server."],
    "error": None,
}
RECORDING = {
    "id": "6d771cfc",
    "by": '"olga (http)"',
    "since": 3.2,
    "left": 56.8,
    "rows": 322,
    "lost": 0,
    "sample": 0.5,
    "names": "hashed",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("shop") / "apf.yaml"
    file.write_text(CONFIG)
    with serve(APP, environment={"APF_CONFIG": str(file)}) as server:
        yield server


@pytest.fixture
def page(chrome: Browser) -> Iterator[Page]:
    """Return a page that gets answers about a shadow and a recording."""
    with chrome.page() as found:
        found.answer("/openapi.json", {"paths": {"/a/shadow": {}, "/a/recordings": {}}})
        found.answer("/shadow", {"shadow": None})
        found.answer("/shadow/promote", {"shadow": SHADOW})
        found.answer("/recordings", {"recordings": []})
        found.answer(f"/recordings/{RECORDING['id']}", {"recording": RECORDING})
        found.send_headers(OPERATOR)
        yield found
        assert found.complaints == []


def open_console(page: Page, shop: Server) -> None:
    page.open(shop.url + CONSOLE)
    page.wait_for_text("#fact-live", "live")


def confirm(page: Page) -> None:
    page.wait("document.querySelector('#confirm').open")
    page.click("#confirm-yes")
    page.wait("!document.querySelector('#confirm').open")


def changes(page: Page) -> list[tuple[str, str, str]]:
    return [one for one in page.sent if one[0] != "GET"]


def test_a_server_without_them_has_no_panels(chrome: Browser, shop: Server) -> None:
    with chrome.page() as page:
        page.answer("/openapi.json", {"paths": {"/a/queues": {}}})
        page.send_headers(OPERATOR)
        open_console(page, shop)
        page.wait_for_text("#headline", "Nothing waits")
        assert [path for _, path, _ in page.sent] == ["/openapi.json"]

        assert page.text("#shadow") == page.text("#recordings") == ""


def test_a_configuration_is_tried_from_the_one_in_force(page: Page, shop: Server) -> None:
    open_console(page, shop)
    page.wait_for_text("#shadow-note", "no configuration is tried now")
    page.click("#shadow-trial summary")
    page.click("#shadow-copy")
    page.wait("document.querySelector('#shadow-form textarea').value.includes('kind: PriorityLevel')")
    page.click("#shadow-form [name=classify]")
    page.click("#shadow-form [type=submit]")
    confirm(page)
    page.wait_for_text("#notice-text", "The configuration is tried now.")
    [(method, path, body)] = changes(page)

    assert (method, path) == ("PUT", "/shadow")
    assert json.loads(body)["classifyOnly"] is True
    assert "kind: PriorityLevel" in json.loads(body)["configuration"]

    page.click("#notice-undo")
    page.wait_for_text("#notice-text", "No configuration is tried any more.")
    assert changes(page)[1][:2] == ("DELETE", "/shadow")


def test_the_report_of_a_shadow_says_what_would_be_otherwise(page: Page, shop: Server) -> None:
    page.answer("/shadow", {"shadow": SHADOW})
    open_console(page, shop)
    page.wait_for_text("#shadow-verdict", "99.9 %")

    assert page.text("#shadow-verdict").startswith("1,234 requests, 34 of them classified otherwise")
    assert page.text("#shadow-levels").split("\t") == ["crowd", "7.3", "9", "40", "50 ms", "500 ms", "7"]
    assert page.text("#shadow-differences").split("\t") == [
        *("customers at crowd", "pages at interactive", "34", "GET /web/<b>7</b> of alice"),
    ]
    assert page.text("#shadow-caveats") == "Durations are those of the real server."


def test_a_shadow_that_has_failed_says_why(page: Page, shop: Server) -> None:
    page.answer("/shadow", {"shadow": SHADOW | {"state": "failed", "error": "ValueError: odd"}})
    open_console(page, shop)

    page.wait_for_text("#shadow-caveats", "The shadow has failed: ValueError: odd")


def test_a_shadow_is_put_in_force_and_stopped(page: Page, shop: Server) -> None:
    page.answer("/shadow", {"shadow": SHADOW})
    open_console(page, shop)
    page.wait_for_text("#shadow-note", "new.yaml, for 90 s")
    page.click("#shadow-promote")
    confirm(page)
    page.wait_for_text("#notice-text", "new.yaml is in force.")
    page.click("#shadow-stop")
    confirm(page)
    page.wait_for_text("#notice-text", "No configuration is tried any more.")

    assert [one[:2] for one in changes(page)] == [("POST", "/shadow/promote"), ("DELETE", "/shadow")]


def test_recordings_are_listed_and_stopped(page: Page, shop: Server) -> None:
    page.answer("/recordings", {"recordings": [RECORDING]})
    open_console(page, shop)
    page.wait_for_text("#recording-rows", "olga (http)")

    assert "50 % of the flows" in page.text("#recording-rows")
    assert page.text("#recording-rows").split("\t")[1:5] == ["3.2 s", "56.8 s", "322", "0"]
    page.click("#recording-rows button")
    confirm(page)
    page.wait_for_text("#notice-text", "The recording is stopped.")
    assert [one[:2] for one in changes(page)] == [("DELETE", "/recordings/6d771cfc")]


def test_a_recording_is_saved_as_a_file(page: Page, shop: Server, tmp_path: Path) -> None:
    open_console(page, shop)
    page.wait_for_text("#recordings-note", "nothing is recorded now")
    page.keep_downloads(tmp_path)
    page.click("#record")
    confirm(page)
    page.wait_for_text("#notice-text", "The recording is over: traffic.jsonl")
    [(method, path, body)] = changes(page)

    assert (method, path, json.loads(body)) == ("POST", "/recordings", {"seconds": 60, "sample": 1, "names": "hashed"})
    assert json.loads(page.downloaded(tmp_path / "traffic.jsonl")) == {"recordings": []}


def test_readers_see_reports_and_change_nothing(page: Page, shop: Server) -> None:
    page.answer("/shadow", {"shadow": SHADOW})
    page.answer("/recordings", {"recordings": [RECORDING]})
    page.send_headers(READER)
    open_console(page, shop)
    page.wait_for_text("#shadow-verdict", "99.9 %")
    page.wait_for_text("#recording-rows", "olga")

    visible = (
        "[...document.querySelectorAll('#shadow button, #recordings button')].filter((one) => one.checkVisibility())"
    )
    assert page.value(f"{visible}.length") == 0
