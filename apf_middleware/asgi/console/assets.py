"""The files of the page, with the headers under which a browser runs them.

They are the same for all callers and contain no data. The page may load only files and data from its own origin, runs
no script that isn't a file of its own, and can't be shown within another page.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from apf_middleware.asgi.admin.protocol import MARK
from apf_middleware.asgi.responses import Answer
from apf_middleware.asgi.scope import Headers

__all__ = ["INDEX", "POLICY", "answer_asset", "assets"]

INDEX: Final = "index.html"
"""The page itself."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
"""The Content-Security-Policy of all files."""

_FOLDER: Final = Path(__file__).with_name("static")
_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
_PROTECTION: Final[Headers] = [
    (b"cache-control", b"no-cache"),  # keep it, but ask whether it is still the same
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (MARK.encode(), b"1"),
]


@cache
def assets() -> Mapping[str, bytes]:
    """Return the contents of all files by name; they are read once."""
    files = sorted(path for path in _FOLDER.iterdir() if path.suffix in _TYPES)
    return MappingProxyType({path.name: path.read_bytes() for path in files})


def answer_asset(name: str, known_tag: str) -> Answer:
    """Answer with a file, or with 304 if the browser has it with ``known_tag``; raise KeyError for an unknown name."""
    content = assets()[name]
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = [*_PROTECTION, (b"etag", tag.encode())]
    if tag in {one.strip().removeprefix("W/") for one in known_tag.split(",")}:
        return Answer(304, headers, b"")
    kind = _TYPES[Path(name).suffix]
    more = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(content))]
    return Answer(200, [*headers, *more], content)
