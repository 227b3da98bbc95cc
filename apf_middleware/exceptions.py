"""The tree of all exceptions, and the checks of values that raise most of them.

APFError
├── InvalidValueError          an argument breaks a rule (also a ValueError)
│   ├── ClockError             time ran backwards
│   ├── InfeasibleError        an allocation problem without a solution
│   └── UnknownGateError       a configuration names a gate that isn't defined
├── ConfigurationError         a configuration can't be used: all its problems (also a ValueError; in `config`)
├── UnknownArgumentError       a function or class has no such argument (also a TypeError)
├── TicketStateError           a ticket was used out of turn, say released twice (also a RuntimeError)
├── QueueError                 a live server's named queues can't be changed so; its ``kind`` says why
│   ├── QueueNotFoundError     there is no such queue (also a LookupError)
│   ├── QueueConflictError     not as things are now (also a RuntimeError)
│   └── QueueInvalidError      fields break rules: all of them, by name (also a ValueError)
├── MissingAdmissionError      a request that hasn't come through the middleware (also a LookupError)
├── BlockedLoopError           the event loop didn't answer another thread in time (also a TimeoutError)
├── DeadlineError              too little time is left for a call to another service (also a TimeoutError)
├── TraceFormatError           a trace file is not what it should be (also a ValueError)
└── MissingExtraError          an optional package is not installed (also an ImportError)

A rejected request is none of these: a rejection is a value.
Every message says which name had which value, the rule that it breaks, and where it helps the next step.
"""

from typing import Any

__all__ = [
    "MOST_AMOUNT",
    "APFError",
    "BlockedLoopError",
    "ClockError",
    "DeadlineError",
    "InfeasibleError",
    "InvalidValueError",
    "MissingAdmissionError",
    "MissingExtraError",
    "QueueConflictError",
    "QueueError",
    "QueueInvalidError",
    "QueueNotFoundError",
    "TicketStateError",
    "TraceFormatError",
    "UnknownArgumentError",
    "UnknownGateError",
    "reason_of",
    "require_amount",
    "require_flag",
    "require_integer",
]

MOST_AMOUNT = 2**53
"""Up to this number doubles represent all integers exactly."""


class APFError(Exception):
    """The base class of all errors that this package raises on purpose."""


class InvalidValueError(APFError, ValueError):
    """An argument breaks a rule; the parts of the message are kept, so that a caller can add where it happened."""

    def __init__(self, name: str, value: object, rule: str, hint: str = "") -> None:
        super().__init__(name, value, rule, hint)
        self.name = name
        self.value = value
        self.rule = rule
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.name} is {self.value!r}, but {self.rule}{'. ' if self.hint else ''}{self.hint}"


class ClockError(InvalidValueError):
    """Time ran backwards: the caller's clock is not monotonic."""

    @classmethod
    def between(cls, last: int, now: int) -> "ClockError":
        """Return the error of a call at the time ``now`` after one at the time ``last``."""
        return cls("now", now, f"it must not be before {last}", hint="Use one monotonic clock")


class InfeasibleError(InvalidValueError):
    """The bounds of an allocation problem leave no solution."""


class UnknownGateError(InvalidValueError):
    """A schema, a route or a level names a gate, the ``value``, that isn't defined."""


class UnknownArgumentError(APFError, TypeError):
    """A function or class was called with arguments that don't fit; the message lists the arguments that it has."""

    def __init__(self, called: str, rule: str, known: str) -> None:
        super().__init__(called, rule, known)
        self.called = called
        self.rule = rule
        self.known = known

    def __str__(self) -> str:
        return f"{self.called}: {self.rule}. Its arguments are {self.known}"


class TicketStateError(APFError, RuntimeError):
    """A ticket was used in a state that doesn't allow it, for example released twice."""


class BlockedLoopError(APFError, TimeoutError):
    """The event loop didn't answer another thread in time."""

    def __init__(self, waited_s: float) -> None:
        super().__init__(waited_s)
        self.waited_s: float = waited_s

    def __str__(self) -> str:
        rule = f"The event loop hasn't answered this thread for {self.waited_s:g} s, because a function blocks it"
        return f"{rule}. Run the blocking function in a thread, for example with anyio.to_thread.run_sync"


class DeadlineError(APFError, TimeoutError):
    """The deadline of the current request leaves too little time for the requests that it would make."""

    def __init__(self, left: float, least: float) -> None:
        super().__init__(left, least)
        self.left: float = left
        self.least: float = least

    def __str__(self) -> str:
        return f"the deadline of the request leaves {self.left:.3f} s for a call, which must be at least {self.least} s"


class TraceFormatError(APFError, ValueError):
    """A trace file has a wrong format; the message names file and field."""


class QueueError(APFError):
    """A named queue can't be changed in this way; the message names the next step, ``kind`` the class of the error."""

    kind = "queue"

    def __init__(self, queue: str, rule: str, hint: str = "") -> None:
        super().__init__(queue, rule, hint)
        self.queue = queue
        self.rule = rule
        self.hint = hint

    def __str__(self) -> str:
        return f"queue {self.queue!r}: {self.rule}{'. ' if self.hint else ''}{self.hint}"


class QueueNotFoundError(QueueError, LookupError):
    """There is no such queue."""

    kind = "not-found"


class QueueConflictError(QueueError, RuntimeError):
    """The present state of the queues doesn't allow the change."""

    kind = "conflict"


class QueueInvalidError(QueueError, ValueError):
    """Fields break rules; ``problems`` lists all of these fields, each with its value and rule."""

    kind = "invalid"

    def __init__(self, queue: str, problems: "tuple[tuple[str, object, str], ...]") -> None:
        rule = "; ".join(f"{field} is {value!r}, but {rule}" for field, value, rule in problems)
        super().__init__(queue, rule)
        self.args: tuple[Any, ...] = (queue, problems)  # the constructor's arguments, for pickle
        self.problems = problems

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(field for field, _, _ in self.problems)


class MissingAdmissionError(APFError, LookupError):
    """A request that hasn't come through the middleware was asked for its admission."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"the request for {self.path!r} has no admission: add APFMiddleware to the app that received it"


class MissingExtraError(APFError, ImportError):
    """An optional package is not installed; the message says which extra installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        extra = f"the extra {self.extra!r} isn't installed (there is no package {self.package!r})"
        return f"{extra}: pip install 'apf-middleware[{self.extra}]'"


def reason_of(error: OSError) -> str:
    """Return what the operating system says about an error, as a part of a sentence."""
    return (error.strerror or str(error)).lower()


def require_integer(name: str, value: object, *, least: int | None = None, most: int | None = None) -> int:
    """Return ``value``; raise InvalidValueError unless it is an integer (not a bool) within the bounds."""
    if type(value) is not int:
        raise InvalidValueError(name, value, "it must be an integer")
    if least is not None and value < least:
        raise InvalidValueError(name, value, f"it must be at least {least}")
    if most is not None and value > most:
        raise InvalidValueError(name, value, f"it must be at most {most}")
    return value


def require_flag(name: str, value: object) -> None:
    """Raise InvalidValueError unless ``value`` is a boolean: a text such as "no" would count as true."""
    if not isinstance(value, bool):
        raise InvalidValueError(name, value, "it must be True or False")


def require_amount(name: str, value: object, *, most: int = MOST_AMOUNT) -> float:
    """Return ``value``; raise InvalidValueError unless it is a number (not a bool) from 0 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:  # also NaN
        bound = "2**53" if most == MOST_AMOUNT else str(most)
        raise InvalidValueError(name, value, f"it must be a number from 0 to {bound}")
    return value
