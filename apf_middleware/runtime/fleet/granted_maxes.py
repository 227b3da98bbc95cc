"""A member's parts of the levels' maxes, and when others should learn how much of them it uses."""

from collections.abc import Collection, Iterable, Mapping

from apf_middleware.fairqueuing import SharedLevel, Sharing

__all__ = ["GrantedMaxes"]


class _Part:
    """A part of a max: ``seats`` for these ``levels``, of which ``reported`` seats were in use at the last report."""

    __slots__ = ("is_scarce", "levels", "reported", "seats")

    def __init__(self, seats: int, levels: Collection[SharedLevel], *, is_scarce: bool) -> None:
        self.seats = seats
        self.is_scarce = is_scarce
        self.levels = levels
        self.reported = self.in_use

    @property
    def in_use(self) -> int:
        return _in_use(self.levels)

    @property
    def is_idle(self) -> bool:
        """Whether others want seats of this part, and no request here waits for them."""
        return self.is_scarce and self.in_use < self.seats and not any(level.waits for level in self.levels)

    @property
    def is_over(self) -> bool:
        """Whether requests have ended that ran beyond the part, which had become smaller."""
        return self.in_use < self.reported > self.seats


class GrantedMaxes:
    """The parts of the last grant, for the levels of ``sharing``."""

    __slots__ = ("_parts", "_sharing", "_watched")

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._parts: dict[str, _Part] = {}
        self._watched: list[_Part] = []  # others never have news; each request that ends asks

    def adopt(self, maxes: Mapping[str, int], scarce: Collection[str]) -> bool:
        """Adopt the parts of a grant; return whether others can have seats as soon as this is confirmed."""
        before = self._parts
        if not (maxes or before):
            return False
        families = self._families()
        self._parts = parts = {
            name: _Part(seats, families.get(name, ()), is_scarce=name in scarce) for name, seats in maxes.items()
        }
        self._watch()
        return any(
            part.is_idle or (part.reported <= part.seats and (name not in before or part.seats < before[name].seats))
            for name, part in parts.items()
        )

    def in_use(self, names: Iterable[str]) -> dict[str, int]:
        """Return the seats in use at these levels and parents."""
        families = self._families()
        return {name: _in_use(families.get(name, ())) for name in names}

    def _families(self) -> dict[str, list[SharedLevel]]:
        """Return the limited levels of each name, and those with a parent of this name."""
        found: dict[str, list[SharedLevel]] = {}
        for level in [*self._sharing.levels.values(), *self._sharing.draining]:
            for name in () if level.exempt else {level.name, level.name if level.parent is None else level.parent.name}:
                found.setdefault(name, []).append(level)
        return found

    def _watch(self) -> None:
        self._watched = [part for part in self._parts.values() if part.is_scarce or part.reported > part.seats]

    def has_news(self) -> bool:
        """Return whether a request has ended whose seat others can have."""
        return bool(self._watched) and any(part.is_idle or part.is_over for part in self._watched)

    def give_back(self) -> dict[str, int]:
        """Return the parts that become smaller, because others want what isn't in use."""
        idle = {name: part.in_use for name, part in self._parts.items() if part.is_idle}
        for name, seats in idle.items():
            self._parts[name].seats = seats
        return idle

    def report(self) -> dict[str, int]:
        """Return the seats in use of each part, for a report."""
        families = self._families() if self._parts else {}  # a reload may have changed them since the grant
        for name, part in self._parts.items():
            part.levels = families.get(name, ())
            part.reported = part.in_use
        self._watch()
        return {name: part.reported for name, part in self._parts.items()}

    def __repr__(self) -> str:
        return f"<GrantedMaxes { {name: part.seats for name, part in self._parts.items()} }>"


def _in_use(levels: Iterable[SharedLevel]) -> int:
    return sum(level.in_use for level in levels)
