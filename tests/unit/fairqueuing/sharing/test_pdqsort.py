from typing import TYPE_CHECKING

import pytest

from apf_middleware.fairqueuing.sharing.pdqsort import pdqsort

if TYPE_CHECKING:
    from apf_middleware.fairqueuing.sharing.pdqsort import Keyed

# Keys, and where sort.Sort of Go 1.19 left each of them; equal keys are not in their first order.
GO = {
    "2121222201020": "8 12 10 9 3 1 4 5 6 7 0 2 11",
    "10110111010000": "8 1 13 12 4 11 10 6 7 9 0 5 3 2",
    "132223022030122122": "6 11 9 15 12 0 4 7 8 3 2 13 14 16 17 5 10 1",
    "10011101011111110011111111": "6 1 2 17 16 8 12 15 5 9 10 11 0 13 14 7 4 3 18 19 20 21 22 23 24 25",
    "0000010102011112202002101111022102210122121101122211": (
        "17 1 2 3 4 44 6 36 8 32 10 28 0 23 20 19 26 27 51 50 14 46 22 13 24 25 12 37 11 45 5 31 43 42 40 35 7 33 38 "
        "39 34 41 16 9 30 29 21 47 48 49 15 18"
    ),
}


@pytest.mark.parametrize("keys", GO)
def test_equal_keys_end_in_the_order_of_go(keys: str) -> None:
    items: list[Keyed] = [(float(key), place) for place, key in enumerate(keys)]

    pdqsort(items)

    assert [item[1] for item in items] == list(map(int, GO[keys].split()))


def test_up_to_twelve_items_keep_the_order_of_equal_keys() -> None:
    items: list[Keyed] = [(float(place % 3), place) for place in range(12)]

    pdqsort(items)

    assert items == sorted(items)


@pytest.mark.parametrize("length", [0, 1, 13, 49, 50, 64, 1000])
@pytest.mark.parametrize("shape", ["ascending", "descending", "equal", "organ pipe", "saw", "killer"])
def test_every_shape_is_sorted(length: int, shape: str) -> None:
    keys = {
        "ascending": range(length),
        "descending": range(length, 0, -1),
        "equal": [0] * length,
        "organ pipe": [min(place, length - place) for place in range(length)],
        "saw": [place % 7 for place in range(length)],
        "killer": [place if place % 2 else length - place // 2 for place in range(length)],
    }[shape]
    items: list[Keyed] = [(float(key), place) for place, key in enumerate(keys)]

    pdqsort(items)

    assert [item[0] for item in items] == sorted(map(float, keys))
    assert sorted(item[1] for item in items) == list(range(length))
