"""What operators change at one member of a fleet, so that it reaches the others, and those that join later.

Queues and gates that an operator changes, the mode, and requests to read the configuration again, are told under one
key each. A change that isn't possible at a member, because its configuration is another one, is logged and left out.
"""

import json
import logging
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from apf_middleware.config.files import MAX_BYTES
from apf_middleware.config.formats.apf import level_document, read_level
from apf_middleware.config.objects import Level
from apf_middleware.exceptions import APFError, InvalidValueError
from apf_middleware.mode import MODES, Mode
from apf_middleware.runtime import Controller
from apf_middleware.runtime.log import log_event
from apf_middleware.runtime.named_queues import NamedQueues

if TYPE_CHECKING:
    from apf_middleware.asgi.shadow_control import ShadowControl

__all__ = ["FleetNotices", "NoticeReceiver"]

_QUEUE: Final = "queue"
_GATE: Final = "gate"
_MODE: Final = "mode"
_RELOAD: Final = "reload"
_SHADOW: Final = "shadow"


class FleetNotices:
    """Tell other members what happens here, by the member of ``controller``; do nothing while there is none."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def tell_queue(self, name: str, level: Level | None, sheds: bool) -> None:  # noqa: FBT001 - a callback
        """Tell that a queue has been changed, or deleted if ``level`` is None; ``sheds`` if it rejects what waits."""
        found = None if level is None else level_document(level)
        self._tell(f"{_QUEUE}:{name}", {"level": found, "sheds": sheds})

    def tell_gate(self, name: str, seconds: float | None, *, is_open: bool) -> None:
        """Tell that a gate has been opened, or closed for a time or until it is opened."""
        self._tell(f"{_GATE}:{name}", {"open": is_open, "seconds": seconds})

    def tell_mode(self, mode: Mode) -> None:
        """Tell that requests are limited, only observed, or only counted from now on."""
        self._tell(_MODE, {"mode": mode})

    def tell_reload(self) -> None:
        """Tell that the configuration should be read again."""
        self._tell(_RELOAD, {})

    def tell_shadow(self, text: str | None, source: str = "", *, classify_only: bool = False) -> None:
        """Tell that a configuration is tried, or none any more."""
        packed = None if text is None else _pack(text)
        self._tell(_SHADOW, {"configuration": packed, "source": source, "classify_only": classify_only})

    def tell_promotion(self, text: str, source: str) -> None:
        """Tell that this configuration, which was tried, has been put in force.

        Another member may try an older one still, or none: of notices that come at once it sees the last one only.
        """
        self._tell(_SHADOW, {"configuration": _pack(text), "source": source, "promoted": True})

    def _tell(self, key: str, value: Mapping[str, Any]) -> None:
        member = self._controller.member
        if member is None:
            return
        try:
            member.tell(key, json.dumps(value))
        except InvalidValueError as error:
            _log_refusal(self._controller, key, error)


class NoticeReceiver:
    """Apply what other members tell; ``switch`` sets the mode, and ``reload`` begins to read the configuration."""

    def __init__(
        self,
        controller: Controller,
        queues: NamedQueues,
        shadow: "ShadowControl",
        *,
        switch: Callable[[Mode], None],
        reload: Callable[[], None],
    ) -> None:
        self._controller = controller
        self._queues = queues
        self._shadow = shadow
        self._change_mode = switch
        self._reload = reload

    def apply(self, news: Mapping[str, str], is_first: bool) -> None:  # noqa: FBT001 - a callback
        """Apply what others have told; ``is_first`` if they told it before this member joined, at an unknown time."""
        for key, value in news.items():
            kind, _, name = key.partition(":")
            try:
                found = json.loads(value)
                if kind == _QUEUE:
                    self._change_queue(name, found)
                elif kind == _GATE:
                    self._operate_gate(name, found, is_first=is_first)
                elif kind == _MODE:
                    self._switch(found["mode"])
                elif kind == _RELOAD:  # also for a newcomer, which may have read its files just before the change
                    self._reload()
                elif kind == _SHADOW:
                    self._follow_shadow(found, is_first=is_first)
            except (APFError, ValueError, LookupError, TypeError) as error:
                _log_refusal(self._controller, key, error)

    def _change_queue(self, name: str, found: Mapping[str, Any]) -> None:
        level = None if found["level"] is None else read_level(found["level"])
        self._queues.follow(name, level, sheds=bool(found["sheds"]))

    def _follow_shadow(self, found: Mapping[str, Any], *, is_first: bool) -> None:
        packed, source = found["configuration"], str(found["source"])
        if not found.get("promoted"):
            text = None if packed is None else _unpack(packed)
            self._shadow.follow(text, source, classify_only=bool(found["classify_only"]))
        elif not is_first:  # a newcomer has read its files
            self._shadow.follow_promotion(_unpack(packed), source)

    def _switch(self, mode: object) -> None:
        known = [one for one in MODES if one == mode]
        if not known:
            raise InvalidValueError("mode", mode, f"it must be one of {', '.join(MODES)}")
        self._change_mode(known[0])

    def _operate_gate(self, name: str, found: Mapping[str, Any], *, is_first: bool) -> None:
        gates, seconds = self._controller.gates, found["seconds"]
        if gates is None or name not in gates:
            raise InvalidValueError("gate", name, "there is none of this name here")
        if found["open"]:
            gates.open(name)
        elif seconds is None or not is_first:
            gates.close(name, None if seconds is None else float(seconds))


def _log_refusal(controller: Controller, key: str, error: Exception) -> None:
    settings = controller.configuration.server.fleet
    fleet = "" if settings is None else settings.name
    log_event(logging.WARNING, "apf.fleet-notice-refused", fleet=fleet, key=key, error=str(error))


def _pack(text: str) -> str:
    """Return the text of a configuration as a notice has it, whose length is limited: YAML compresses well."""
    return b64encode(zlib.compress(text.encode())).decode()


def _unpack(packed: str) -> str:
    """Return the text of a configuration; raise ValueError if it is too long for a file, or no text."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(b64decode(packed), MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"the configuration can't be unpacked: {error}") from error
    if not unpacker.eof:
        raise ValueError(f"the configuration is longer than {MAX_BYTES} bytes")
    return text.decode()
