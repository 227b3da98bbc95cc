"""Pictures of the console for the documentation: ``python -m docs.generate.screenshots``, about three minutes.

A real server has real clients: first mice, and then an elephant, too. Chromium shows the page as on a desk, in the dark
and on a phone.
"""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from PIL import Image

from tests.support.browser import Page, browser
from tests.support.console_load import MICE, load
from tests.support.console_shop import APP, CONFIG, CONSOLE, OPERATOR
from tests.support.servers import serve

__all__ = ["main"]

_IMAGES: Final = Path(__file__).parents[1] / "images"
_CALM_S: Final = 60
_BUSY_S: Final = 90
_COLOURS: Final = 128
_USUAL: Final = ("web-1:2:0.2:/web/home", "web-2:1:0.3:/web/cart", "paula:3:0.1:/pay/7")
_ELEPHANT: Final = "elephant:120:0:/orders/export"


def main() -> None:
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "apf.yaml"
        file.write_text(CONFIG.replace("waitLimit: 20s", "waitLimit: 800ms"))
        server = stack.enter_context(serve(APP, environment={"APF_CONFIG": str(file)}))
        page = stack.enter_context(stack.enter_context(browser()).page())
        stack.enter_context(load(server.port, *MICE, *_USUAL))
        page.send_headers(OPERATOR)
        page.open(server.url + CONSOLE)
        time.sleep(_CALM_S)
        stack.enter_context(load(server.port, _ELEPHANT))
        time.sleep(_BUSY_S)
        page.wait_for_text("#headline", "elephant")
        _take(page, "console.png", height=1060)
        _take(page, "console-dark.png", height=660, dark=True)
        _take(page, "console-phone.png", width=390, height=844, phone=True)
        page.show_as(1280, 900)
        page.click("#flow-rows button")
        page.wait_for_text("#flow-requests", "/orders/export")
        _take(page, "console-flow.png", height=700)
        page.press("Escape")
        page.click("[aria-label='Pause interactive']")
        page.wait("document.querySelector('#confirm').open")
        _take(page, "console-pause.png", height=420)


def _take(page: Page, name: str, *, width: int = 1280, height: int, dark: bool = False, phone: bool = False) -> None:
    """Write what the page shows into an image with few colours, which makes it small."""
    page.show_as(width, height, dark=dark, phone=phone, scale=1.25)
    time.sleep(2.5)  # until the next document has been drawn
    path = _IMAGES / name
    page.screenshot(path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
