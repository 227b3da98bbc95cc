"""The modes of a server: whether it limits requests."""

from typing import Final, Literal, get_args

__all__ = ["MODES", "Mode"]

Mode = Literal["on", "observe", "off"]
"""Requests are limited (on), or all run at once, while the server shows what it would do (observe) or counts (off)."""

MODES: Final[tuple[Mode, ...]] = get_args(Mode)
