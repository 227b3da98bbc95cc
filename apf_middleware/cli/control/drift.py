"""Differences between the queues of a running server and the files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apf_middleware.cli.control.merging import QueueReply

__all__ = ["QueueDifference", "differences"]

Documents = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class QueueDifference:
    """One field of a queue; None where there is no such queue or no such field. ``workers`` lists those that differ."""

    queue: str
    field: str
    file: object
    live: object
    workers: tuple[str, ...]

    def __str__(self) -> str:
        if not self.field:
            return f"{self.queue}: only {'in the files' if self.live is None else 'live'}"
        return f"{self.queue}: {self.field} is {_shown(self.live)} live, {_shown(self.file)} in the files"


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)


def differences(filed: Sequence[Mapping[str, Any]], replies: Sequence[QueueReply]) -> list[QueueDifference]:
    """Return the differences of all workers that answered, each with the workers that have it."""
    files = _by_name(filed)
    found: dict[tuple[str, str, str, str], tuple[QueueDifference, list[str]]] = {}
    for reply in replies:
        for one in _of_one(files, _by_name(reply.document.documents)) if reply.document else ():
            key = one.queue, one.field, repr(one.file), repr(one.live)
            found.setdefault(key, (one, []))[1].append(reply.worker)
    return [
        QueueDifference(one.queue, one.field, one.file, one.live, tuple(workers))
        for _, (one, workers) in sorted(found.items(), key=lambda item: item[0])
    ]


def _by_name(documents: Iterable[Mapping[str, Any]]) -> Documents:
    """Return the priority levels among the documents."""
    return {
        one["metadata"]["name"]: one
        for one in documents
        if one["kind"] in {"PriorityLevel", "PriorityLevelConfiguration"}
    }


def _of_one(files: Documents, live: Documents) -> Iterator[QueueDifference]:
    for name in sorted({*files, *live}):
        if name not in live:
            yield QueueDifference(name, "", name, None, ())
        elif name not in files:
            yield QueueDifference(name, "", None, name, ())
        else:
            before, now = dict(_leaves(files[name]["spec"], "spec")), dict(_leaves(live[name]["spec"], "spec"))
            for field in sorted({*before, *now}):
                if before.get(field) != now.get(field):
                    yield QueueDifference(name, field, before.get(field), now.get(field), ())


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, f"{path}.{key}")
    else:
        yield path, value
