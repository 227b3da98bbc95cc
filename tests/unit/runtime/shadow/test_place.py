"""Places of requests in a second configuration."""

from apf_middleware.classification import ANONYMOUS, Classification
from apf_middleware.fairqueuing import Work
from apf_middleware.runtime import Destination
from apf_middleware.runtime.shadow.durations import MeanDuration
from apf_middleware.runtime.shadow.place import ShadowPlace
from apf_middleware.runtime.shadow.tallies import SchemaTally
from tests.support.level_world import PLACE, LevelWorld


def test_a_place_has_what_similar_requests_share() -> None:
    destination = Destination(LevelWorld().controller, PLACE, Work())
    tally, durations = SchemaTally("crowd", "all"), MeanDuration()
    place = ShadowPlace(destination, tally, ANONYMOUS, durations)

    assert (place.destination, place.tally, place.identity, place.durations) == (
        destination,
        tally,
        ANONYMOUS,
        durations,
    )
    assert repr(place) == f"<ShadowPlace {PLACE}>"


def test_a_place_is_another_one_by_its_schema_or_level() -> None:
    destination = Destination(LevelWorld().controller, PLACE, Work())
    place = ShadowPlace(destination, SchemaTally("crowd", "all"), ANONYMOUS, MeanDuration())

    for real, is_other in (
        (PLACE, False),
        (Classification("another", PLACE.level, PLACE.flow, PLACE.entropy), True),
        (Classification(PLACE.schema, PLACE.level, "another", PLACE.entropy), False),
        (Classification(PLACE.schema, "another", PLACE.flow, PLACE.entropy), True),
    ):
        place.compare(real)
        assert (place.real, place.is_other) == (real, is_other)
