from apf_middleware.asgi.wall_offset import WallOffset


def test_the_offset_of_the_wall_clock_stays_until_that_is_set() -> None:
    now, wall = iter(range(0, 100, 7)), iter([1000, 1007, 1300, 1000 + 10**9])
    offset = WallOffset(lambda: next(now), lambda: next(wall))

    assert [offset(), offset()] == [1000, 1000]
    assert offset() == 10**9 + 1000 - 21
