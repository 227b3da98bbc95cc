"""The bounded cache of two generations."""

import pytest

from apf_middleware.bounded_cache import BoundedCache
from apf_middleware.exceptions import InvalidValueError


def test_a_key_that_is_used_stays_while_others_are_dropped() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("hot", 1)
    for n in range(10):
        cache.put(f"cold-{n}", n)
        assert cache.get("hot") == 1

    assert cache.get("cold-0") is None
    assert len(cache) <= 4
    assert repr(cache).startswith("BoundedCache(2)")


def test_the_last_keys_of_a_generation_are_always_there() -> None:
    cache: BoundedCache[int, bool] = BoundedCache(3)
    for n in range(20):
        cache.put(n, False)  # noqa: FBT003 - a false value is a value
        assert [cache.get(key) for key in range(max(0, n - 2), n + 1)] == [False] * min(3, n + 1)
        assert len(cache) <= 6


def test_a_cleared_cache_is_empty() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for key in "abc":
        cache.put(key, 1)
    cache.clear()
    assert (len(cache), cache.get("a"), cache.get("c")) == (0, None, None)


def test_a_cache_must_have_room_for_a_key() -> None:
    with pytest.raises(InvalidValueError, match="generation is 0, but it must be at least 1"):
        BoundedCache(0)
