"""Any recorded request is read as it was written."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.recordings import RecordedRequest, parse_line, request_line
from apf_middleware.recordings.request import Outcome
from tests.support.examples import examples

MOST_NS = 10**15  # more than eleven days
DURATIONS = st.none() | st.integers(0, MOST_NS)
NUMBERS = st.integers(0, 999_999)
REQUESTS = st.builds(
    RecordedRequest,
    time_ns=st.integers(-MOST_NS, MOST_NS),
    duration_ns=DURATIONS,
    user=st.text(),
    groups=st.lists(st.text(), max_size=3).map(tuple),
    method=st.text(min_size=1),
    path=st.text().map(lambda text: f"/{text}"),
    host=st.text(),
    headers=st.dictionaries(st.text().map(str.lower).filter(lambda name: name == name.lower()), st.text(), max_size=3),
    address=st.text(),
    seats=NUMBERS,
    route=st.text(),
    schema=st.text(),
    level=st.text(),
    flow=st.text(),
    weight=st.floats(min_value=1e-9, max_value=1e8) | st.integers(1, 10),
    final_seats=NUMBERS,
    linger_ns=st.integers(0, MOST_NS),
    wait_ns=DURATIONS,
    outcome=st.sampled_from(get_args(Outcome)),
    reason=st.text(),
    status=NUMBERS,
    is_stream=st.booleans(),
    deadline_ns=DURATIONS,
    criticality=st.text(),
    is_standing=st.booleans(),
    worker=NUMBERS,
)


@examples(200)
@given(REQUESTS)
def test_any_request_is_read_as_it_was_written(request: RecordedRequest) -> None:
    line = request_line(request)
    found = parse_line(line)

    assert "\n" not in line
    assert line.isascii()
    assert found == request
    assert isinstance(found, RecordedRequest)
    assert found.headers == request.headers
