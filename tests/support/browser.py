"""A real Chromium without a window, driven over its DevTools protocol: pages, clicks, keys, requests and complaints.

Only what tests need is here. It needs no driver, and starts in about a second.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect

__all__ = ["Browser", "Page", "PageError", "browser", "chromium"]

_PATIENCE_S: Final = 60.0
_OPTIONS: Final = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-extensions",
        "--disable-dev-shm-usage",
    ),
    # One process for all pages: to start a browser's process takes longer than to show a page.
    *("--renderer-process-limit=1", "--process-per-site", "--disable-site-isolation-trials"),
    "--disable-features=SpareRendererForSitePerProcess,IsolateOrigins,site-per-process",
    *("--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none", "--remote-debugging-port=0"),
)
_KEYS: Final[Mapping[str, tuple[int, str]]] = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "Space": (32, " "),
    "ArrowDown": (40, ""),
}


class PageError(AssertionError):
    """The page didn't do what was asked of it."""


def chromium() -> str | None:
    """Return the path of Chromium's program, if it is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass(slots=True)
class Page:
    """One page; ``requests`` are the URLs that it has asked for, ``complaints`` its errors and warnings.

    ``sent`` are the methods, paths and bodies of the requests that were answered instead of the server.
    """

    socket: ClientConnection
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    responses: dict[str, dict[str, str]] = field(default_factory=dict)
    sent: list[tuple[str, str, str]] = field(default_factory=list)
    _answers: dict[str, str] = field(default_factory=dict)
    _number: int = 0

    def call(self, method: str, /, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._number += 1
        number = self._number
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            message = json.loads(self.socket.recv(_PATIENCE_S))
            if message.get("id") == number:
                if "error" in message:
                    raise PageError(f"{method}: {message['error']['message']}")
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)
        raise PageError(f"{method}: no answer")

    def _note(self, message: dict[str, Any]) -> None:
        """Remember an event of the page."""
        facts = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(facts["request"]["url"])
            case "Network.responseReceived":
                headers = {name.lower(): value for name, value in facts["response"]["headers"].items()}
                self.responses[facts["response"]["url"]] = headers
            case "Fetch.requestPaused":
                self._answer(facts)
            case "Runtime.exceptionThrown":
                details = facts["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            case "Log.entryAdded" if facts["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(f"{facts['entry']['text']} {facts['entry'].get('url', '')}")
            case "Runtime.consoleAPICalled" if facts["type"] in {"error", "warning", "assert"}:
                self.complaints.append(str([one.get("value", one.get("description")) for one in facts["args"]]))

    def answer(self, path: str, document: object) -> None:
        """Answer requests for ``path`` with a JSON document from now on, instead of the server."""
        self._answers[path] = json.dumps(document)
        self.call("Fetch.enable", patterns=[{"urlPattern": f"*{one}"} for one in self._answers])

    def _answer(self, facts: dict[str, Any]) -> None:
        """Answer a request that the browser has held up."""
        url = urlsplit(facts["request"]["url"]).path
        path = max((one for one in self._answers if url.endswith(one)), key=len)
        self.sent.append((facts["request"]["method"], path, facts["request"].get("postData", "")))
        headers = [{"name": "content-type", "value": "application/json"}]
        body = base64.b64encode(self._answers[path].encode()).decode()
        parameters = {"requestId": facts["requestId"], "responseCode": 200, "responseHeaders": headers, "body": body}
        self._number += 1  # its result is of no interest
        self.socket.send(json.dumps({"id": self._number, "method": "Fetch.fulfillRequest", "params": parameters}))

    # Looking

    def value(self, expression: str) -> Any:  # noqa: ANN401 - whatever the page returns
        """Return the value of an expression in the page, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise PageError(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of the first element that matches; empty if there is none, or if it isn't visible."""
        return str(self.value(_text_of(selector)))

    def wait(self, expression: str, seconds: float = _PATIENCE_S) -> Any:  # noqa: ANN401 - as above
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + seconds
        while not (found := self.value(expression)):
            if time.monotonic() > deadline:
                raise PageError(f"after {seconds:g} s it still isn't so: {expression}\n{self.text('body')[:3000]}")
            time.sleep(0.05)
        return found

    def wait_for_text(self, selector: str, part: str, seconds: float = _PATIENCE_S) -> None:
        """Wait until an element shows a text."""
        self.wait(f"({_text_of(selector)}).includes({json.dumps(part)})", seconds)

    def keep_downloads(self, folder: Path) -> None:
        """Save files in this folder."""
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    @staticmethod
    def downloaded(file: Path) -> str:
        """Wait until a file has been saved, which gets its name at the end, and return its text."""
        deadline = time.monotonic() + _PATIENCE_S
        while not file.exists():
            if time.monotonic() > deadline:
                raise PageError(f"{file} wasn't saved")
            time.sleep(0.05)
        return file.read_text()

    def heap_bytes(self) -> int:
        """Return the size of the page's live JavaScript objects."""
        self.call("HeapProfiler.enable")
        self.call("HeapProfiler.collectGarbage")
        return int(self.call("Runtime.getHeapUsage")["usedSize"])

    def screenshot(self, path: Path) -> None:
        """Write what the page shows as PNG."""
        result = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(result["data"]))

    # Acting

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        result = self.call("Page.navigate", url=url)
        if "errorText" in result:
            raise PageError(f"{url}: {result['errorText']}")
        self.wait("document.readyState === 'complete'")

    def click(self, selector: str) -> None:
        """Click with the mouse into the middle of the first element that matches, where it must be visible.

        If the element has moved away before the click, as rows of a live table do, it is clicked again.
        """
        find = f"document.querySelector({json.dumps(selector)})"
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            self.wait(f"{find} !== null && {find}.getClientRects().length > 0")
            place = self.value(
                f"(() => {{ const one = {find}; one.scrollIntoView({{block: 'center'}}); window.clicked = false;"
                " one.addEventListener('click', () => { window.clicked = true; }, {once: true});"
                " const r = one.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
            )
            where = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type="mousePressed", **where)
            self.call("Input.dispatchMouseEvent", type="mouseReleased", **where)
            if self.value("window.clicked !== false"):  # of another page, it is undefined
                return
        raise PageError(f"{selector} never gets the click")

    def press(self, key: str) -> None:
        """Press a key."""
        code, text = _KEYS[key]
        facts = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **facts)
        self.call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def type(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{found}.focus(); {found}.select()")
        self.call("Input.insertText", text=text)

    def show_as(self, width: int, height: int, *, dark: bool = False, phone: bool = False, scale: float = 1) -> None:
        """Set the size of the window, and whether it is that of a phone; and whether the user prefers a dark page."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])

    def send_headers(self, headers: Mapping[str, str]) -> None:
        """Add headers to all requests, as a proxy with a login does."""
        self.call("Network.setExtraHTTPHeaders", headers=dict(headers))


def _text_of(selector: str) -> str:
    """Return the expression for the visible text of an element."""
    found = f"document.querySelector({json.dumps(selector)})"
    return f"{found}?.checkVisibility() ? {found}.innerText : ''"  # of a hidden one, innerText is the whole text


@dataclass(slots=True)
class Browser:
    """A browser; its pages share nothing with those of another one."""

    port: int

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        """Open an empty page, and close it at the end."""
        target = json.loads(self._ask("PUT", "new?about:blank"))
        address = target["webSocketDebuggerUrl"]
        with connect(address, max_size=None, max_queue=None, ping_interval=None, open_timeout=_PATIENCE_S) as socket:
            page = Page(socket)
            for domain in ("Page", "Runtime", "Network", "Log"):
                page.call(f"{domain}.enable")
            page.show_as(1280, 900)
            try:
                yield page
            finally:
                self._ask("GET", f"close/{target['id']}")

    def _ask(self, method: str, page: str) -> bytes:
        """Return the answer of the browser itself."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/{page}", method=method)
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as response:  # noqa: S310 - our own browser
            content: bytes = response.read()
            return content


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Run a browser with a profile of its own."""
    program = chromium()
    assert program is not None, "chromium isn't installed"
    with tempfile.TemporaryDirectory(prefix="apf-chromium-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
            start_new_session=True,
        )
        try:
            yield Browser(_port(process, Path(profile) / "DevToolsActivePort"))
        finally:
            with contextlib.suppress(ProcessLookupError):  # the group is the browser's own
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _port(process: subprocess.Popen[bytes], file: Path) -> int:
    """Return the port of the protocol, which the browser writes into a file when it listens."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PageError(f"chromium ended with status {process.returncode}")
        with contextlib.suppress(OSError, IndexError, ValueError):
            return int(file.read_text().split()[0])
        time.sleep(0.05)
    raise PageError("chromium doesn't listen")
