"""The answers to rejected requests: their contents, and when two requests get the same one."""

import json
from dataclasses import replace
from random import Random
from typing import Literal

import pytest

from apf_middleware.asgi.rejections import RejectionAnswers
from apf_middleware.asgi.response_headers import ResponseHeaders
from apf_middleware.asgi.responses import Answer
from apf_middleware.classification import Classification
from apf_middleware.config import Configuration, load, load_text
from apf_middleware.config.responses import ResponseSettings, RetryAfterBounds
from apf_middleware.fairqueuing import Reason, Work
from apf_middleware.gates import Refusal
from apf_middleware.runtime import Admission, Controller
from tests.support.deadline_arrivals import DeadlineArrivals

MS = 10**6
SECOND = 10**9
ANONYMOUS = Classification("anonymous-clients", "anonymous", "10.0.0.0/24", 7)


class World:
    """A controller whose clock the test sets, and the answers to its rejected requests."""

    def __init__(self, config: Configuration | None = None, settings: ResponseSettings | None = None) -> None:
        self.now = 0
        self.controller = Controller(config or load(), now=lambda: self.now)
        self.answers = RejectionAnswers(ResponseHeaders(settings or ResponseSettings()), Random(1))

    def arrive(self, place: Classification = ANONYMOUS) -> Admission:
        admission = Admission(self.controller.destination(place, Work()))
        self.controller.arrive(self.now, admission)
        return admission

    def refused(self, reason: Reason, *, after: int = 0) -> Admission:
        """Return a request that was rejected for ``reason``, when it had waited for ``after`` nanoseconds."""
        admission = Admission(self.controller.destination(ANONYMOUS, Work()))
        self.controller.refuse(self.now, admission, reason)
        admission.arrived_at -= after
        return admission

    def reject(self, reason: Reason, *, after: int = 0) -> Answer:
        return self.answers.find(self.refused(reason, after=after))


STEADY = ResponseSettings(retry_after=RetryAfterBounds(3, 3))
"""Settings without randomness."""


def headers_of(answer: Answer) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in answer.headers}


def retry_after(answer: Answer) -> int:
    return int(headers_of(answer)["retry-after"])


def crowd(queues: int = 2, length: int = 4, seats: int = 1) -> Configuration:
    """Return a configuration with one level."""
    return load_text(
        f"""
apiVersion: apf/v1
kind: Server
spec: {{seats: {seats}, defaults: none}}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: crowd}}
spec:
  shares: 1000
  queuing: {{queues: {queues}, handSize: 1, queueLengthLimit: {length}}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: all}}
spec: {{level: crowd, rules: [{{httpRules: [{{}}]}}]}}
"""
    )


def flow(name: str, entropy: int) -> Classification:
    return Classification("all", "crowd", name, entropy)


# What is in an answer


def test_a_rejection_has_the_headers_that_a_client_needs() -> None:
    found = World().reject(Reason.TIME_OUT)
    headers, problem = headers_of(found), json.loads(found.body)

    assert found.status == problem["status"] == 429
    assert headers["content-type"] == "application/problem+json"
    assert headers["content-length"] == str(len(found.body))
    assert headers["cache-control"] == "no-store"
    assert headers["retry-after"] == "1"
    assert headers["x-apf-flow-schema"] == problem["schema"] == "anonymous-clients"
    assert headers["x-apf-priority-level"] == problem["level"] == "anonymous"
    assert problem["reason"] == "time-out"
    assert problem["waited"] == 0
    assert "10.0.0.0" not in json.dumps(problem), "the flow of others is not disclosed"


@pytest.mark.parametrize("dialect", ["apf", "kubernetes"])
def test_names_can_be_hidden(dialect: Literal["apf", "kubernetes"]) -> None:
    found = World(settings=ResponseSettings(dialect=dialect, names="hidden")).reject(Reason.CONCURRENCY_LIMIT)

    assert b"anonymous" not in found.body
    assert "anonymous" not in repr(found.headers)
    prefix = "x-apf" if dialect == "apf" else "x-kubernetes-pf"
    assert len([name for name in headers_of(found) if name.startswith(prefix)]) == 2


def test_the_name_of_a_gate_can_be_hidden_too() -> None:
    world = World(settings=ResponseSettings(names="hidden"))
    admission = world.refused(Reason.GATE)
    admission.refusal = Refusal("quota", 503, 7.2)

    assert b"quota" not in world.answers.find(admission).body


def test_a_closing_server_answers_503_for_any_configured_status() -> None:
    world = World(settings=STEADY)
    closed = world.reject(Reason.QUEUE_CLOSED)  # of a named queue, while the server is open
    world.controller.close()
    found = world.answers.find(world.arrive())

    assert (closed.status, found.status) == (503, 503)
    assert "connection" not in headers_of(closed)
    assert headers_of(found)["connection"] == "close"
    assert json.loads(closed.body)["detail"] == "The queue for requests like this one is closed."
    assert json.loads(found.body)["detail"] == "The server is shutting down."
    assert "connection" not in headers_of(world.reject(Reason.TIME_OUT)), "its reason is another one"


def test_the_status_of_rejections_can_be_chosen() -> None:
    assert World(settings=ResponseSettings(status=503)).reject(Reason.CONCURRENCY_LIMIT).status == 503


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_is_explained(reason: Reason) -> None:
    problem = json.loads(World().reject(reason).body)

    assert (problem["type"], problem["reason"]) == (f"urn:apf:{reason.value}", reason.value)
    assert problem["detail"]


@pytest.mark.parametrize("reason", [Reason.SLOW_BODY, Reason.BODY_LIMIT])
def test_a_body_that_is_never_received_ends_the_connection(reason: Reason) -> None:
    assert headers_of(World().reject(reason))["connection"] == "close"


def test_an_answer_of_a_gate_names_the_gate_and_has_its_status_and_time() -> None:
    world = World()
    admission = world.refused(Reason.GATE)
    admission.refusal = Refusal("quota", 503, 7.2)
    found = world.answers.find(admission)

    assert found.status == 503
    assert headers_of(found)["retry-after"] == "8"
    assert json.loads(found.body)["gate"] == "quota"
    admission.refusal = Refusal("quota", 503, 0)
    assert headers_of(world.answers.find(admission))["retry-after"] == "1", "0 would be a loop"
    assert "gate" not in json.loads(world.reject(Reason.GATE).body), "another request has another answer"


def test_a_wait_for_a_gate_that_is_too_long_is_not_said_to_be_one_for_a_seat() -> None:
    world = World()
    waited = json.loads(world.answers.find(world.refused(Reason.TIME_OUT)).body)
    admission = world.refused(Reason.TIME_OUT)
    admission.refusal = Refusal("quota", 503, None)
    gated = json.loads(world.answers.find(admission).body)

    assert waited["detail"].startswith("No seat came free")
    assert (gated["reason"], gated["gate"]) == ("time-out", "quota")
    assert gated["detail"].startswith("A resource that this request needs")


# When requests share an answer


def test_requests_that_are_rejected_on_arrival_share_an_answer() -> None:
    world = World(settings=STEADY)
    first, second = world.reject(Reason.CONCURRENCY_LIMIT), world.reject(Reason.CONCURRENCY_LIMIT)

    assert first is second
    assert first is not world.reject(Reason.STREAM_LIMIT)


@pytest.mark.parametrize("settings", [STEADY, replace(STEADY, server_timing=True, names="hidden")])
def test_a_shared_answer_is_the_one_that_a_request_alone_would_get(settings: ResponseSettings) -> None:
    world = World(settings=settings)
    for reason in [reason for reason in Reason if reason not in {Reason.GATE, Reason.TIME_OUT}]:
        world.reject(reason)
        alone = world.answers._write_for(world.refused(reason), reason)
        assert world.reject(reason) == alone


def test_a_request_that_has_waited_is_told_for_how_long() -> None:
    world = World(settings=ResponseSettings(server_timing=True))
    world.reject(Reason.QUEUE_CLOSED)
    found = world.reject(Reason.QUEUE_CLOSED, after=1500 * MS)

    assert json.loads(found.body)["waited"] == 1.5
    assert headers_of(found)["server-timing"] == 'apf;dur=1500.0;desc="queue-closed"'
    assert json.loads(world.reject(Reason.QUEUE_CLOSED).body)["waited"] == 0


def test_retry_after_is_random_and_follows_the_rate() -> None:
    world = World(crowd(length=400, seats=2))
    running = [world.arrive(flow("a", 1)) for _ in range(402)]
    assert {retry_after(world.answers.find(world.arrive(flow("a", 1)))) for _ in range(50)} == {1, 2}
    for number in range(20):
        world.now += 100 * MS
        world.controller.release(running[number])
        world.arrive(flow("a", 1))
    answers = [world.answers.find(world.arrive(flow("a", 1))) for _ in range(500)]
    seconds = set(map(retry_after, answers))

    # 401 requests at 10 a second, because 20 were served in two seconds; and a quarter more or less
    assert 31 <= min(seconds) <= 32
    assert 50 <= max(seconds) <= 51
    assert len(seconds) >= 15
    for answer in answers:
        assert json.loads(answer.body)["retry_after"] == retry_after(answer)


@pytest.mark.parametrize("light", [0, 15], ids=["idle before", "lightly used before"])
def test_a_burst_after_quiet_seconds_is_told_to_return_soon(light: int) -> None:
    world = World(crowd(length=20, seats=8))
    for _ in range(light):  # one request of 0.2 s in each second
        one = world.arrive(flow("a", 1))
        world.now += 200 * MS
        world.controller.release(one)
        world.now += 800 * MS
    world.now = max(world.now, 15 * SECOND)
    burst = [world.answers.find(one) for one in [world.arrive(flow("a", 1)) for _ in range(60)] if one.reason]

    # 20 wait, and are served within half a second
    assert len(burst) == 32
    assert {retry_after(answer) for answer in burst} <= {1, 2}


def test_the_rate_is_measured_again_after_a_short_time() -> None:
    world = World(crowd(length=1, seats=1))
    world.arrive(flow("a", 1))
    world.arrive(flow("a", 1))
    found = []
    for now in (0, 3 * SECOND, 3 * SECOND + 10 * MS, 4 * SECOND):
        world.now = now
        found.append(retry_after(world.answers.find(world.arrive(flow("a", 1)))))

    # at first the rate is unknown, and then no request was served in so many seconds
    assert found[0] <= 2
    assert all(seconds > 2 for seconds in found[1:])


def test_the_expected_time_is_valid_for_50_ms() -> None:
    world = World(settings=ResponseSettings(retry_after=RetryAfterBounds(1, 1000)))
    world.reject(Reason.CONCURRENCY_LIMIT)
    [prepared] = world.answers._prepared.values()
    prepared.expected_s = 100.0
    found = []
    for now in (49 * MS, 51 * MS):
        world.now = now
        found.append(retry_after(world.reject(Reason.CONCURRENCY_LIMIT)))

    assert 75 <= found[0] <= 125
    assert found[1] <= 2


def test_few_answers_are_kept_although_many_numbers_are_possible() -> None:
    world = World(settings=ResponseSettings(retry_after=RetryAfterBounds(1, 100_000)))
    world.reject(Reason.CONCURRENCY_LIMIT)
    [prepared] = world.answers._prepared.values()
    for expected in range(1, 50_000, 50):
        prepared.expected_s = float(expected)
        world.reject(Reason.CONCURRENCY_LIMIT)

    assert len(prepared.answers) <= 256


# Whose requests fill the queue


def test_a_caller_is_told_whether_its_own_flow_fills_the_queue() -> None:
    world = World(crowd(length=4))
    elephant = flow("elephant", 2)
    for _ in range(5):
        world.arrive(elephant)
    own = world.answers.find(world.arrive(elephant))
    index = world.controller.levels["crowd"].shared.queueset.deck.choose(2, 1).index
    mice = [flow(f"mouse-{number}", number) for number in range(3, 200)]
    other = next(
        one for one in map(world.arrive, mice) if one.reason and one.queue is not None and one.queue.index == index
    )

    assert json.loads(own.body)["own_flow"] is True
    assert json.loads(world.answers.find(other).body)["own_flow"] is False
    for reason in [one for one in Reason if one is not Reason.QUEUE_FULL]:
        refused = Admission(world.controller.destination(elephant, Work()))
        world.controller.refuse(world.now, refused, reason)
        assert "own_flow" not in json.loads(world.answers.find(refused).body)


def test_with_a_single_queue_nothing_is_said_about_the_own_flow() -> None:
    world = World(crowd(queues=1, length=1))
    rejected = [world.arrive(flow("a", 1)) for _ in range(3)][-1]

    assert rejected.reason is Reason.QUEUE_FULL
    assert "own_flow" not in json.loads(world.answers.find(rejected).body)


# Deadlines


def late_answer(mode: str) -> Answer:
    """Return the answer to a request with 3 seconds left, and ten others of a second ahead."""
    server = DeadlineArrivals(mode, duration_ms=1000)
    server.fill(waiting=10)
    admission = server.arrive(left_ms=3000)
    if mode == "shadow":
        server.now += 3000 * MS
        server.controller.abandon(admission, Reason.DEADLINE)
    answers = RejectionAnswers(ResponseHeaders(ResponseSettings(retry_after=RetryAfterBounds(1, 60))), Random(1))
    return answers.find(admission)


def test_a_request_that_would_be_late_may_retry_when_less_is_ahead() -> None:
    answer = late_answer("on")
    problem = json.loads(answer.body)

    assert answer.status == 429
    assert (problem["reason"], problem["waited"]) == ("deadline", 0)
    assert 0.75 * 9 <= retry_after(answer) <= 1.25 * 9 + 1, "11 s of waiting, of which 2 s are left"


def test_a_request_whose_time_is_over_gets_504() -> None:
    answer = late_answer("shadow")

    assert answer.status == 504
    assert json.loads(answer.body)["reason"] == "deadline"
