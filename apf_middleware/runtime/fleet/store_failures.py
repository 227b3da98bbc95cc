"""The failures of a fleet's store: what is logged of them, and how long to pause after each.

A store may refuse one command and answer another one. So an outage ends when nothing has failed for the time of a
lease, and until then each of its causes is logged once: the first one, such as a lost connection, need not be the one
that lasts, such as a wrong password.
"""

import logging
import random
from typing import Final

from apf_middleware.runtime.fleet.participant import Participant
from apf_middleware.runtime.log import log_event

__all__ = ["StoreFailures"]

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.4  # so that a member is back within a second after its store
_MOST_CAUSES: Final = 8  # errors may contain what differs each time
_SECOND: Final = 10**9


class StoreFailures:
    """The failures of ``store``, an address without a password, where ``participant`` meets the other members."""

    __slots__ = ("_causes", "_failed_at", "_number", "_participant", "_store")

    def __init__(self, participant: Participant, store: str) -> None:
        self._participant = participant
        self._store = store
        self._number = self._failed_at = 0
        self._causes: set[str] = set()

    @property
    def pause_s(self) -> float:
        """The time to wait before the next try, in seconds."""
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._number, 16))
        return random.uniform(longest / 2, longest)  # noqa: S311 - not for security

    def note(self, error: BaseException) -> None:
        """Note a failure, and log its cause once for each outage."""
        self._number += 1
        self._failed_at = self._participant.now()
        cause = self._cause_of(error)
        if cause not in self._causes and len(self._causes) < _MOST_CAUSES:
            self._causes.add(cause)
            fleet = self._participant.name
            log_event(logging.WARNING, "apf.fleet-store-failed", fleet=fleet, store=self._store, error=cause)

    def _cause_of(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError) and not str(error):
            return f"no answer within {self._participant.timing.timeout_ns / _SECOND:g} s"
        return str(error) or type(error).__name__

    def note_answer(self) -> None:
        """Note that the store has answered; log the end of an outage."""
        lease_ns = self._participant.timing.lease_ns
        if self._number and self._participant.now() - self._failed_at >= lease_ns:
            fleet = self._participant.name
            log_event(logging.INFO, "apf.fleet-store-answers", fleet=fleet, store=self._store, failures=self._number)
            self._number = 0
            self._causes.clear()

    def __repr__(self) -> str:
        return f"<StoreFailures at {self._store}: {self._number}>"
