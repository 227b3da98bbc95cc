"""Steps of a sharing: requests that arrive and release their seats, and a check of the sharing after each."""

from apf_middleware.fairqueuing import LevelLimits, QueueSetSettings, Sharing, Ticket, Work

__all__ = ["QUEUED", "REJECTING", "arrive", "limits", "release", "seated"]

QUEUED = QueueSetSettings(5, 16, 4, 20)
REJECTING = QueueSetSettings.without_queues(5)


def limits(nominal: int, least: int, most: int = 100) -> LevelLimits:
    return LevelLimits(nominal, least, most)


def arrive(sharing: Sharing, name: str, number: int = 1, work: Work | None = None, now: int = 0) -> list[Ticket]:
    """Let requests of as many flows arrive at a level; each ticket has the level's name as that of its flow."""
    tickets = [Ticket(name, flow, work or Work()) for flow in range(number)]
    for ticket in tickets:
        sharing.arrive(now, sharing.levels[name], ticket)
        sharing.check()
    return tickets


def release(sharing: Sharing, ticket: Ticket, now: int = 0) -> list[str]:
    """Return the levels of the tickets that this seats."""
    seated = sharing.release(now, sharing.levels[ticket.flow], ticket)
    sharing.check()
    return [one.flow for one in seated]


def seated(tickets: list[Ticket]) -> int:
    return sum(ticket.is_seated for ticket in tickets)
