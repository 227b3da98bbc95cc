"""The width-indexed heap against a scan of all queues."""

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.fairqueuing.width_indexed_heap import WidthIndexedHeap
from tests.support.examples import examples

QUEUES = 7

steps = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, QUEUES - 1), st.integers(0, 5), st.integers(1, 20)),
        st.tuples(st.just("drop"), st.integers(0, QUEUES - 1), st.just(0), st.just(0)),
        st.tuples(st.just("close_up"), st.integers(0, QUEUES - 1), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@examples(60)
@given(steps=steps, after=st.integers(-1, QUEUES), widest=st.one_of(st.none(), st.integers(1, 16)))
def test_the_first_within_a_width_is_found(
    steps: list[tuple[str, int, int, int]], after: int, widest: int | None
) -> None:
    heap = WidthIndexedHeap()
    plain: dict[int, tuple[int, int]] = {}  # finish and width
    for what, index, finish, width in steps:
        if what == "place":
            plain[index] = (finish, width)
            if width == 1 and not heap.wide:
                heap.put(index, finish)
            else:
                heap.place(index, finish, width)
        elif what == "drop":
            plain.pop(index, None)
            heap.drop(index)
        else:
            plain = {other - (other > index): known for other, known in plain.items() if other != index}
            heap.close_up(index)
        heap.check()
        fitting = [
            (finish, index <= after, index)
            for index, (finish, width) in plain.items()
            if widest is None or width <= widest
        ]
        if fitting:
            assert heap.first_within(after, widest) == min(fitting)[2]
        else:
            assert heap.first_within(after, widest) is None
