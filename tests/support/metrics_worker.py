"""One of several workers: it reads commands from its standard input, one a line, and answers each when it is done.

The commands are `dispatch N`, `levels A B …`, `publish` and `close`.
"""

import sys

from apf_middleware.fairqueuing.sharing.limits import LevelLimits
from apf_middleware.metrics import LevelReading, Publisher, SchemaCounters, SchemaReading, ServerReading

_SECOND = 10**9


def main(directory: str) -> None:
    counters = SchemaCounters("work", "users")
    levels = ["work"]

    def read() -> ServerReading:
        shown = (LevelReading(name, "queue", LevelLimits(10, 5, 20), 10, demand={5: _SECOND}) for name in levels)
        return ServerReading(tuple(shown), (SchemaReading("work", "users", counters),), seats=10, version="1")

    publisher = Publisher(read, directory=directory)
    for line in sys.stdin:
        order, *arguments = line.split()
        if order == "dispatch":
            counters.at_once += int(arguments[0])
        elif order == "levels":
            levels[:] = arguments
        elif order == "publish":
            publisher.publish()
        elif order == "close":
            publisher.close()
        print(order, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
