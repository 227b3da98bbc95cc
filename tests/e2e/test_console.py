"""The console in Chromium: a real server, real clients, and what a person sees and does on the page."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pytest

from apf_middleware.cli.control.local_console import LocalConsole
from apf_middleware.cli.control.workers import UrlWorker, Worker
from tests.support.browser import Browser, Page, PageError
from tests.support.console_load import ELEPHANT, MICE, load
from tests.support.console_shop import APP, CONFIG, CONSOLE, OPERATOR, READER
from tests.support.servers import ROOT, Server, serve

pytestmark = pytest.mark.timeout(240)

FORGER = "<img src=x onerror=alert(1)>:1:0.3:/orders/9"
LONG = tuple(f"{'long-name' * 40}{last}:1:0.3:/orders/9" for last in "12")
TURNER = "evil\u202etxt.exe:1:0.3:/orders/9"
PAYER = "paula:6:0:/pay/7"

CONTRASTS = """(() => {
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const found = parse(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !parent.checkVisibility() || parent.closest("noscript, script")) continue;
    const [one, other] = [luminance(parse(getComputedStyle(parent).color)), luminance(ground(parent))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    seen += 1;
    if (contrast < 4.5) faint.push([walker.currentNode.data.trim(), contrast]);
  }
  return {seen, faint};
})()"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run the shop, with an elephant and mice."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "apf.yaml").write_text(CONFIG)
    environment = {"APF_CONFIG": str(folder / "apf.yaml"), "APF_RUNTIME_DIR": str(folder / "run")}
    with (
        serve(APP, environment=environment) as server,
        load(server.port, ELEPHANT, *MICE, FORGER, *LONG, TURNER, PAYER, "web-1:2:0.2:/web/home"),
    ):
        yield server


@pytest.fixture
def page(chrome: Browser, shop: Server) -> Iterator[Page]:
    """Show the console to an operator."""
    with chrome.page() as found:
        found.send_headers(OPERATOR)
        found.open(shop.url + CONSOLE)
        found.wait_for_text("#fact-live", "live")
        yield found
        assert found.complaints == []


def row(page: Page, table: str, name: str) -> str:
    """Return the selector of the row with this name at its head, wherever the row moves."""
    key = page.wait(
        f"[...document.querySelectorAll('#{table} > tr')].find((one) => "
        f"one.querySelector('th').innerText.split('\\n')[0].startsWith('{name}'))?.dataset.key"
    )
    return f"#{table} > tr[data-key={json.dumps(key)}]"


def confirm(page: Page, says: str) -> None:
    """Confirm the dialog, which must say what it will do."""
    page.wait("document.querySelector('#confirm').open")
    assert says in page.text("#confirm")
    page.click("#confirm-yes")
    page.wait("!document.querySelector('#confirm').open")


# What is shown


def test_the_elephant_is_named_at_the_top_and_first_among_the_flows(page: Page) -> None:
    page.wait_for_text("#headline", "crowd is full: elephant uses ")

    assert re.search(r"elephant uses \d+ of \d+ seats", page.text("#headline"))
    assert "Its fair share" in page.text("#advice") or "its fair share" in page.text("#advice")
    page.wait("document.querySelector('#flow-rows th').innerText.includes('elephant')")
    assert page.text("#tone").lower() == "elephant"
    assert page.text("#flow-rows .chip:not([hidden])") == "elephant"


def test_levels_show_their_seats_in_numbers_and_in_a_bar_that_says_the_same(page: Page) -> None:
    crowd = row(page, "level-rows", "crowd")
    page.wait_for_text(f"{crowd} .loans", "borrows")
    figures = page.text(f"{crowd} .figures")
    label = page.value(f"document.querySelector({json.dumps(f'{crowd} .seats-bar')}).getAttribute('aria-label')")

    assert re.fullmatch(r"(\d+) of (\d+) seats · min \d+ · nominal \d+", figures)
    assert re.fullmatch(r"crowd: \d+ of \d+ seats · min \d+ · nominal \d+", label)
    page.wait(f"document.querySelector({json.dumps(f'{crowd} .borrowed')}).getAttribute('width') > 0")
    page.wait(f"document.querySelector({json.dumps(f'{crowd} .spark .line')}).getAttribute('d')?.length > 10")
    page.wait_for_text(crowd, "full")


def test_the_lines_can_be_read_as_a_table(page: Page) -> None:
    page.click("#minutes summary")
    minutes = row(page, "minutes-rows", "crowd")
    page.wait_for_text(f"{minutes} td", "rejected")

    assert re.match(r"p99 ≤ [\d.]+ m?s, none rejected", page.text(f"{minutes} td"))


def test_names_of_clients_are_text_whatever_they_contain(page: Page) -> None:
    page.wait_for_text("#flow-rows", "<img src=x onerror=alert(1)>")

    assert page.value("document.querySelectorAll('table img').length") == 0


def test_characters_that_turn_the_text_around_are_shown_by_their_codes(page: Page) -> None:
    page.wait_for_text("#flow-rows", "evil\\u202etxt.exe")

    assert "\u202e" not in page.text("body")


def test_long_names_that_begin_alike_have_rows_of_their_own(page: Page) -> None:
    rows = "[...document.querySelectorAll('#flow-rows button')].filter((one) => one.innerText.startsWith('long-name'))"
    page.wait(f"{rows}.length === 2")
    page.value(f"{rows}[0].click()")
    page.wait_for_text("#flow-requests", "/orders/9")
    page.click("#flow-close")


def test_queues_with_waiting_requests_are_listed_with_their_flows(page: Page) -> None:
    page.wait_for_text("#queue-rows", "elephant")

    assert "in which requests wait" in page.text("#queues-note")


def test_the_page_asks_its_own_server_only_under_a_strict_policy(page: Page, shop: Server) -> None:
    page.wait_for_text("#headline", "elephant")
    headers = page.responses[shop.url + CONSOLE]

    admin = f"{shop.url}{CONSOLE.removesuffix('console/')}"
    assert {url for url in page.requests if not url.startswith(admin)} == set()
    assert len(page.requests) > 8
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"


def test_a_click_on_a_flow_shows_its_requests_and_its_share(page: Page) -> None:
    page.click(f"{row(page, 'flow-rows', 'elephant')} button")
    page.wait_for_text("#flow-requests", "/orders/export")

    assert page.text("#flow-title") == "elephant"
    assert "more than its fair share" in page.text("#flow-verdict")
    for state in ("runs", "waits, place 1"):  # now and then none of its requests runs
        page.wait_for_text("#flow-requests", state)
    page.press("Escape")
    page.wait("!document.querySelector('#flow').open")


@pytest.mark.parametrize("ahead_s", [7200, -7200])
def test_ages_do_not_depend_on_the_clock_of_the_browser(page: Page, ahead_s: int) -> None:
    page.value(f"void (Date.now = ((now) => () => now() + {ahead_s * 1000})(Date.now))")
    page.click(f"{row(page, 'flow-rows', 'elephant')} button")
    ages = "[...document.querySelectorAll('#flow-requests [data-label=Since]')].map((one) => one.innerText)"
    page.wait(f"{ages}.some((age) => age !== '0 ms')", 10)

    assert {age.split()[1] for age in page.value(ages)} <= {"ms", "s"}


def test_a_request_is_explained(page: Page) -> None:
    page.type("[name=url]", "/pay/7")
    page.type("[name=user]", "alice")
    page.click("#explain-form button")
    page.wait_for_text("#explained", "interactive")
    text = page.text("#explained")

    assert "payments" in text
    assert "Tried before it" in text
    assert re.search(r"pages .*path", text)


# What is done


def test_a_queue_is_paused_by_a_click_and_opened_by_the_undo(page: Page, shop: Server) -> None:
    web = row(page, "named-rows", "interactive")
    assert page.text(f"{web} .chip") == "Open"
    page.click(f"{web} [aria-label='Pause interactive']")
    confirm(page, "None of them is served until it is opened")
    page.wait_for_text(f"{web} .chip", "Paused")
    page.wait_for_text("#headline", "interactive is paused")
    assert page.text("#notice-text") == "interactive is paused."

    page.click("#notice-undo")
    page.wait_for_text(f"{web} .chip", "Open")
    page.wait_for_text("#headline", "elephant")
    assert page.text("#notice-text") == "interactive is open."
    assert page.text("#notice-undo") == ""
    assert re.search(r'apf.queue-operated queue=interactive by="olga \(http\)" action=pause', shop.output())


def test_a_closed_queue_that_rejects_is_named_as_the_cause(page: Page) -> None:
    web = row(page, "named-rows", "interactive")
    page.click(f"{web} [aria-label='Close interactive']")
    page.wait("document.querySelector('#confirm').open")
    page.click("#confirm-options label:last-child input")
    page.click("#confirm-yes")
    page.wait_for_text("#headline", "requests a second are rejected")
    assert re.search(r"interactive is closed: [\d.,]+ requests a second are rejected", page.text("#headline"))
    assert page.text("#advice") == "It rejects new requests until an operator opens it."

    page.click("#remedies button")
    confirm(page, "new ones are accepted")
    page.wait_for_text(f"{web} .chip", "Open")
    page.wait_for_text("#headline", "elephant")


def test_a_dialog_that_is_cancelled_changes_nothing(page: Page) -> None:
    page.click(f"{row(page, 'named-rows', 'crowd')} [aria-label='Close crowd']")
    page.wait("document.querySelector('#confirm').open")
    assert "Reject the requests that wait in it, which can't be undone" in page.text("#confirm")
    page.press("Escape")
    page.wait("!document.querySelector('#confirm').open")

    assert page.text("#notice") == ""
    assert page.text(f"{row(page, 'named-rows', 'crowd')} .chip") == "Open"


def test_a_gate_is_shut_and_opened(page: Page) -> None:
    gate = row(page, "gate-rows", "payments")
    page.click(f"{gate} [aria-label^='Shut']")
    confirm(page, "Requests that need payments wait for it")
    page.wait_for_text(f"{gate} .chip", "held")
    page.wait_for_text("#headline", "payments is held")
    page.click("#parked summary")
    page.wait_for_text("#parked-rows", "paula")

    page.click("#notice-undo")
    page.wait(f"document.querySelector({json.dumps(f'{gate} .chip')}).innerText !== 'held'")


def test_the_mode_is_switched_and_switched_back(page: Page) -> None:
    page.click("#switch")
    confirm(page, "Switching rejects and loses no request")
    page.wait_for_text("#fact-mode", "observe")
    page.wait_for_text("#headline", "none is limited")
    page.click("#notice-undo")
    page.wait("document.querySelector('#fact-mode').innerText === 'on'")


@pytest.mark.parametrize(("button", "state"), [("Pause", "Paused"), ("Close", "Closed")])
def test_a_remedy_that_opens_a_queue_can_be_undone(page: Page, button: str, state: str) -> None:
    queue = row(page, "named-rows", "interactive")
    page.click(f"{queue} [aria-label='{button} interactive']")
    confirm(page, "Running requests go on")
    page.wait_for_text("#headline", f"interactive is {state.lower()}")
    page.wait_for_text(f"{queue} .chip", state)
    page.click("#remedies button")
    confirm(page, "Open interactive?")
    page.wait_for_text(f"{queue} .chip", "Open")
    assert page.text("#notice-undo") == "Undo"

    page.click("#notice-undo")
    page.wait_for_text(f"{queue} .chip", state)
    page.click(f"{queue} [aria-label='Open interactive']")
    confirm(page, "Open interactive?")
    page.wait_for_text(f"{queue} .chip", "Open")


def test_a_remedy_that_switches_the_mode_on_can_be_undone(page: Page) -> None:
    page.click("#switch")
    confirm(page, "Switching rejects and loses no request")
    page.wait_for_text("#remedies", "Switch on…")
    page.click("#remedies button")
    confirm(page, "Switch the mode to on?")
    page.wait("document.querySelector('#fact-mode').innerText === 'on'")
    page.click("#notice-undo")
    page.wait_for_text("#fact-mode", "observe")

    page.click("#remedies button")
    confirm(page, "Switch the mode to on?")
    page.wait("document.querySelector('#fact-mode').innerText === 'on'")


def test_the_configuration_is_shown_and_read_again(page: Page) -> None:
    page.click("#yaml summary")
    page.wait_for_text("#yaml-text", "kind: PriorityLevel")
    page.click("#reload")
    confirm(page, "If they have errors, nothing changes")
    page.wait_for_text("#notice-text", "The configuration is in force: 4 levels")


def test_another_configuration_is_tried_and_its_report_shown(page: Page, shop: Server) -> None:
    page.click("#shadow-trial summary")
    page.click("#shadow-copy")
    field = "document.querySelector('#shadow-form textarea')"
    page.wait(f"{field}.value.includes('seats: 12')")
    page.value(f"{field}.value = {field}.value.replace('seats: 12', 'seats: 6')")
    page.click("#shadow-form [type=submit]")
    confirm(page, "decides for itself, and touches none of them")
    page.wait_for_text("#shadow-verdict", "% would have been admitted")
    page.wait_for_text("#shadow-levels", "crowd")
    assert 'apf.shadow-begun by="olga (http)"' in shop.output()

    page.click("#shadow-stop")
    confirm(page, "Its report is lost")
    page.wait_for_text("#shadow-note", "no configuration is tried now")


def test_traffic_is_recorded_into_a_file_until_it_is_stopped(page: Page, tmp_path: Path) -> None:
    page.keep_downloads(tmp_path)
    page.click("#record")
    confirm(page, "names of users and flows are hashed")
    page.wait_for_text("#recording-rows", "olga (http)")
    page.wait("/[1-9]/.test(document.querySelector('#recording-rows [data-label=Requests]').innerText)")
    page.click("#recording-rows button")
    confirm(page, "What has been recorded until now is kept")
    first, *rows, last = map(json.loads, page.downloaded(tmp_path / "traffic.jsonl").splitlines())

    assert (first["recording"], last["recording"]) == ("begin", "end")
    assert {"crowd", "interactive"} >= {one["level"] for one in rows} > set()


def test_a_reader_sees_everything_and_changes_nothing(chrome: Browser, shop: Server) -> None:
    with chrome.page() as page:
        page.send_headers(READER)
        page.open(shop.url + CONSOLE)
        page.wait_for_text("#headline", "elephant")

        assert page.text("#fact-actor") == "rita, reads only"
        assert (
            page.value("[...document.querySelectorAll('[data-change]')].filter((one) => one.checkVisibility()).length")
            == 0
        )
        refused = page.value("fetch('../mode', {method: 'PUT', body: '{}'}).then((answer) => answer.status)")
        assert refused == 403


def test_strangers_see_nothing(chrome: Browser, shop: Server) -> None:
    with chrome.page() as page:
        page.open(shop.url + CONSOLE)

        assert "Authentication is required" in page.text("body")
        assert page.value("document.querySelector('#headline')") is None


# Whom it serves


def test_screen_readers_are_told_of_changes_and_not_of_each_number(page: Page) -> None:
    page.wait_for_text("#headline", "elephant")
    spoken = page.value("document.querySelector('#spoken').innerText")

    assert spoken == "Requests wait in crowd, most of them of elephant."
    assert page.value("[...document.querySelectorAll('[aria-live], [role=status]')].map((one) => one.id)") == [
        *("spoken", "explained", "notice"),
    ]


def test_it_can_be_used_by_keyboard_alone(page: Page) -> None:
    pause = f"{row(page, 'named-rows', 'catch-all')} [aria-label='Pause catch-all']"
    page.press("Tab")
    assert page.value("document.activeElement.className") == "skip"
    for _ in range(60):
        page.press("Tab")
        assert page.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if page.value(f"document.activeElement.matches({json.dumps(pause)})"):
            break
    else:
        raise AssertionError("the button can't be reached")
    page.press("Enter")
    page.wait("document.querySelector('#confirm').open")
    assert page.value("document.activeElement.id") == "confirm-no"
    page.press("Tab")
    page.press("Enter")
    page.wait_for_text(f"{row(page, 'named-rows', 'catch-all')} .chip", "Paused")
    page.value("document.querySelector('#notice-undo').focus()")
    page.press("Enter")
    page.wait_for_text(f"{row(page, 'named-rows', 'catch-all')} .chip", "Open")


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_enough_contrast(page: Page, *, dark: bool) -> None:
    page.show_as(1280, 900, dark=dark)
    page.wait_for_text("#headline", "elephant")
    page.wait_for_text("#queue-rows", "elephant")
    page.wait("new Promise((resolve) => setTimeout(() => resolve(true), 500))")  # until colours have changed
    found = page.value(CONTRASTS)

    assert found["faint"] == []
    assert found["seen"] > 100
    assert page.value("getComputedStyle(document.body).backgroundColor") == (
        "rgb(15, 20, 25)" if dark else "rgb(244, 245, 247)"
    )


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    page.show_as(width, 780, phone=width < 500)
    page.wait_for_text("#headline", "elephant")
    page.wait_for_text("#queue-rows", "elephant")

    assert page.value("document.documentElement.scrollWidth") <= width
    page.click(f"{row(page, 'flow-rows', 'elephant')} button")
    page.wait_for_text("#flow-requests", "/orders/export")
    assert page.value("(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector('#flow'))")


def test_all_controls_and_pictures_have_names(page: Page) -> None:
    page.wait_for_text("#headline", "elephant")
    nodes: list[dict[str, Any]] = page.call("Accessibility.getFullAXTree")["nodes"]
    named = {"button", "link", "textbox", "combobox", "image", "DisclosureTriangle", "table", "dialog", "radio"}
    found = [
        (one["role"]["value"], one.get("name", {}).get("value", ""))
        for one in nodes
        if not one["ignored"] and one["role"]["value"] in named - {"table"}
    ]

    assert len(found) > 30
    assert [role for role, name in found if not name.strip()] == []
    assert page.value("document.documentElement.lang") == "en"
    assert page.value("document.querySelectorAll('h1').length") == 1


def test_motion_is_reduced_for_those_who_ask_for_it(page: Page) -> None:
    feature = {"name": "prefers-reduced-motion", "value": "reduce"}
    page.call("Emulation.setEmulatedMedia", features=[feature])

    assert page.value("getComputedStyle(document.querySelector('#summary')).transitionDuration") == "0s"


# How long it lasts


def test_memory_stays_flat_while_the_page_is_open(page: Page) -> None:
    page.wait_for_text("#headline", "elephant")
    count = "(window.events = (window.events ?? 0)) >= 0"
    page.value(count)
    before = page.heap_bytes()
    for _ in range(8):
        page.wait("new Promise((resolve) => setTimeout(() => resolve(true), 1000))")
    after = page.heap_bytes()

    assert after < 50 * 2**20
    assert after - before < 2 * 2**20


def test_a_paused_queue_is_named_as_the_cause_if_all_that_waits_there_is_parked(
    chrome: Browser, tmp_path: Path
) -> None:
    (tmp_path / "apf.yaml").write_text(CONFIG.replace("lendablePercent: 50", "waitLimit: 10m"))
    environment = {"APF_CONFIG": str(tmp_path / "apf.yaml")}
    payers = "paula:5:0:/pay/7?seconds=600"  # two of them have the gate
    with serve(APP, environment=environment) as server, load(server.port, payers), chrome.page() as page:
        page.send_headers(OPERATOR)
        page.open(server.url + CONSOLE)
        page.wait_for_text("#headline", "3 requests wait for the gate payments")
        page.click(f"{row(page, 'named-rows', 'interactive')} [aria-label='Pause interactive']")
        confirm(page, "None of them is served until it is opened")
        page.wait_for_text("#headline", "interactive is paused: 3 requests wait in it")


def test_of_a_gate_with_many_keys_the_page_shows_some_and_the_number_of_the_others(
    chrome: Browser, tmp_path: Path
) -> None:
    (tmp_path / "apf.yaml").write_text(CONFIG.replace("capacity: 2", "capacity: 2, per: flow"))
    payers = [f"paula-{number}:1:0:/pay/7" for number in range(14)]
    with serve(APP, environment={"APF_CONFIG": str(tmp_path / "apf.yaml")}) as server, chrome.page() as page:
        page.send_headers(OPERATOR)
        page.open(server.url + CONSOLE)
        page.click(f"{row(page, 'gate-rows', 'payments')} [aria-label^='Shut']")
        page.click("#confirm-options label:last-child input")  # for ever: requests wait, whatever their limit is
        confirm(page, "Until an operator opens it")
        with load(server.port, *payers):
            page.wait_for_text("#gates-note", "14 requests wait for gates; 2 other keys with fewer of them")
            assert page.value("document.querySelectorAll('#gate-rows > tr').length") == 12


def test_a_server_that_ends_is_noticed_and_not_delayed(chrome: Browser, tmp_path: Path) -> None:
    (tmp_path / "apf.yaml").write_text(CONFIG)
    with chrome.page() as page:
        page.send_headers(OPERATOR)
        with serve(APP, environment={"APF_CONFIG": str(tmp_path / "apf.yaml")}) as server:
            page.open(server.url + CONSOLE)
            page.wait_for_text("#headline", "Nothing waits")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(15) in {0, -signal.SIGTERM}, "the open page must not delay the shutdown"
        page.wait_for_text("#fact-live", "old", 20)


def test_a_caller_whose_credentials_are_gone_sees_nothing_more(chrome: Browser, tmp_path: Path) -> None:
    (tmp_path / "apf.yaml").write_text(CONFIG)
    environment = {"APF_CONFIG": str(tmp_path / "apf.yaml"), "APF_TEST_LIFETIME_S": "4"}
    with serve(APP, environment=environment) as server, load(server.port, ELEPHANT), chrome.page() as page:
        page.send_headers(OPERATOR)
        page.open(server.url + CONSOLE)
        page.wait_for_text("#headline", "elephant")
        page.send_headers({})
        page.wait_for_text("#fact-live", "not allowed any more")
        stale = page.text("#level-rows")
        page.wait("new Promise((resolve) => setTimeout(() => resolve(true), 2000))")

        assert page.text("#level-rows") == stale


# Without credentials in the browser


def test_the_command_opens_the_console_of_a_socket_for_one_browser(
    chrome: Browser, shop: Server, tmp_path: Path
) -> None:
    directory = Path(f"/proc/{shop.pid}/environ").read_bytes().split(b"APF_RUNTIME_DIR=")[1].split(b"\0")[0].decode()
    command = [sys.executable, "-m", "apf_middleware", "console", "--runtime-dir", directory]
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
    written = cast("IO[str]", process.stdout)
    try:
        url = written.readline().split()[1]
        with chrome.page() as page:
            page.open(url)
            page.wait_for_text("#headline", "elephant")
            assert "operator" in page.text("#fact-actor")
            assert page.complaints == []
            page.open(url)
            assert "This address has been used" in page.text("body")
        with chrome.page() as other, pytest.raises(PageError):
            other.open(url.replace("127.0.0.1", "127.0.0.2"))
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        written.close()


@pytest.mark.parametrize("has_console", [True, False])
def test_the_command_opens_the_console_of_an_address_if_there_is_one(tmp_path: Path, *, has_console: bool) -> None:
    (tmp_path / "apf.yaml").write_text(CONFIG if has_console else CONFIG.replace(", console: true", ""))
    credentials = [f"--header={name}: {value}" for name, value in OPERATOR.items()]
    with serve(APP, environment={"APF_CONFIG": str(tmp_path / "apf.yaml")}) as server:
        command = [sys.executable, "-m", "apf_middleware", "console", "--server", server.url, *credentials]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = cast("IO[str]", process.stdout).readline()
        if first:
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)

    assert first.startswith("Open http://127.0.0.1:") == has_console
    assert ("set spec.admin.console of its Server document to true" in errors) != has_console
    assert process.returncode == (0 if has_console else 1)


@contextmanager
def local_console(workers: list[Worker]) -> Iterator[str]:
    """Run the console of the command in this process, in front of the workers that are in the list at the moment."""
    console = LocalConsole(lambda: workers)
    thread = threading.Thread(target=console.run)
    thread.start()
    try:
        yield console.url
    finally:
        console.end()
        thread.join()
        console.close()


def test_a_server_that_is_down_does_not_count_as_a_refusal(chrome: Browser, tmp_path: Path) -> None:
    (tmp_path / "apf.yaml").write_text(CONFIG)
    environment = {"APF_CONFIG": str(tmp_path / "apf.yaml")}
    workers: list[Worker] = []

    def worker_of(server: Server) -> UrlWorker:
        return UrlWorker(server.url + CONSOLE.removesuffix("/console/"), OPERATOR)

    with local_console(workers) as url, chrome.page() as page:
        with serve(APP, environment=environment) as server:
            workers[:] = [worker_of(server)]
            page.open(url)
            page.wait_for_text("#headline", "Nothing waits")
        page.wait_for_text("#fact-live", "the server doesn't answer", 30)  # the command answers 502
        with serve(APP, environment=environment) as server:
            workers[:] = [worker_of(server)]
            page.wait("document.querySelector('#fact-live').innerText === 'live'", 30)


@pytest.fixture
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a short name, because the paths of sockets are limited."""
    return tmp_path_factory.mktemp("run")


def test_members_of_a_fleet_and_adaptive_seats_are_shown(chrome: Browser, tmp_path: Path, sockets: Path) -> None:
    more = "  seats: {adaptive: {min: 5, max: 40}}\n  fleet: {name: shop}\n"
    (tmp_path / "apf.yaml").write_text(CONFIG.replace("  seats: 12\n", more))
    environment = {"APF_CONFIG": str(tmp_path / "apf.yaml"), "APF_RUNTIME_DIR": str(sockets)}
    with serve(APP, "--workers", "2", environment=environment) as server, chrome.page() as page:
        page.send_headers(OPERATOR)
        page.open(f"{server.url}{CONSOLE}?workers=2")
        page.wait("document.querySelectorAll('#fleet-rows tr').length === 2")
        page.wait_for_text("#headline", "Nothing waits in this worker")

        assert sorted(re.findall("allocator|member", page.text("#fleet-rows"))) == ["allocator", "member"]
        assert "2 members" in page.text("#fleet-note")
        assert not page.value("document.querySelector('#fleet-levels').checkVisibility()"), "nothing has been asked for"
        assert re.match(r"\d+ seats of the fleet, between 5 and 40; the last decision: ", page.text("#adaptive-note"))
        page.wait("document.querySelector('#adaptive-chart .line').getAttribute('d')?.length > 5")
        assert page.complaints == []


def test_levels_and_flows_of_all_members_are_shown_together(chrome: Browser, tmp_path: Path, sockets: Path) -> None:
    (tmp_path / "apf.yaml").write_text(CONFIG.replace("  seats: 12\n", "  seats: 12\n  fleet: {name: shop}\n"))
    environment = {"APF_CONFIG": str(tmp_path / "apf.yaml"), "APF_RUNTIME_DIR": str(sockets)}
    with serve(APP, "--workers", "2", environment=environment) as server, chrome.page() as page:
        page.send_headers(OPERATOR)
        page.open(f"{server.url}{CONSOLE}?workers=2")
        page.wait("document.querySelectorAll('#fleet-rows tr').length === 2")
        with load(server.port, ELEPHANT, *MICE):
            page.wait("document.querySelectorAll('#fleet-level-rows tr').length > 0")
            crowd = row(page, "fleet-level-rows", "crowd")
            # If all its connections are at the other worker, this one doesn't know its name.
            elephant = r"/(elephant|#[0-9a-f]{8}) \d{2,}/"
            page.wait(f"{elephant}.test(document.querySelector({json.dumps(crowd)}).innerText)")
            in_use, wanted = (int(page.text(f"{crowd} td:nth-of-type({place})")) for place in (1, 2))

            assert 0 < in_use < wanted
            assert page.complaints == []
