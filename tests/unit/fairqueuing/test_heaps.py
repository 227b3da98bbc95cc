"""The functions of `heapq`, as constants."""

import heapq

from apf_middleware.fairqueuing import heaps


def test_they_are_those_of_the_standard_library() -> None:
    assert {name: getattr(heaps, name) for name in heaps.__all__} == {
        name: getattr(heapq, name) for name in ("heappop", "heappush", "heapreplace")
    }
