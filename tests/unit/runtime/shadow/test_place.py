"""Places of requests in a second configuration."""

from apf_middleware.classification import ANONYMOUS
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
