"""Who watches what, with upstream's own cases."""

import pytest

from apf_middleware.classification import Resource
from apf_middleware.estimation import Watch, WatchKey, WatchTracker, watch_of
from apf_middleware.exceptions import InvalidValueError
from tests.support.digests import asking, writing


def pods(namespace: str = "", name: str = "", group: str = "") -> Resource:
    return Resource("pods", group, namespace=namespace, name=name)


WATCHED = [pods(), pods("foo"), pods("foo", "mypod"), pods("bar", "mypod")]
WATCHED += [pods("foo", group="group"), pods("bar", "mypod", group="group")]


def tracker() -> WatchTracker:
    found = WatchTracker()
    for resource in WATCHED:
        found.register(resource)
    return found


@pytest.mark.parametrize(
    ("verb", "resource", "interested"),
    [
        ("create", pods("foo"), 2),
        ("update", pods("foo", "mypod"), 3),
        ("patch", pods("foo", "mypod"), 3),
        ("delete", pods("foo", "mypod"), 3),
        ("deletecollection", pods("foo"), 2),
        ("update", pods("foo", "otherpod"), 2),
        ("get", pods("foo", "mypod"), 0),
        ("list", pods("foo"), 0),
        ("watch", pods("foo"), 0),
        ("proxy", pods("foo", "mypod"), 0),
        ("create", pods("bar"), 1),
        ("update", pods("bar", "mypod"), 2),
        ("update", pods("foo", "mypod", "group"), 1),
        ("update", pods("bar", "mypod", "group"), 1),
        ("update", pods("bar", "otherpod", "group"), 0),
        ("update", Resource("services", namespace="foo", name="mypod"), 0),
    ],
)
def test_a_write_concerns_the_watches_that_cover_it(verb: str, resource: Resource, interested: int) -> None:
    assert tracker().interested(verb, resource) == interested


def test_cluster_wide_objects_are_watched_by_kind_and_by_name() -> None:
    nodes = WatchTracker()
    nodes.register(Resource("nodes"))
    nodes.register(Resource("nodes", name="a"))

    assert nodes.interested("update", Resource("nodes", name="a")) == 2
    assert nodes.interested("update", Resource("nodes", name="b")) == 1
    assert nodes.interested("create", Resource("nodes")) == 1


def test_an_ended_watch_is_no_longer_counted() -> None:
    found = WatchTracker()
    first, second = found.register(pods("foo")), found.register(pods("foo"))
    assert found.interested("create", pods("foo")) == 2

    found.forget(first)
    assert found.interested("create", pods("foo")) == 1
    found.forget(first)  # again does nothing
    assert found.interested("create", pods("foo")) == 1
    found.check()

    found.forget(second)
    assert found.interested("create", pods("foo")) == 0
    assert found.snapshot().watches == ()
    found.check()


def test_a_full_tracker_counts_what_it_knows_and_no_more() -> None:
    found = WatchTracker(most=1)
    known, unknown = found.register(pods("a")), found.register(pods("b"))
    found.register(pods("a"))

    assert found.interested("create", pods("a")) == 2
    assert found.interested("create", pods("b")) == 0
    assert found.snapshot().uncounted == 1
    assert "not counted" in repr(unknown)

    found.forget(unknown)
    assert found.total == 2
    found.forget(known)
    found.check()


def test_the_snapshot_shows_the_most_watched_first() -> None:
    found = WatchTracker()
    for namespace in ("b", "a", "c", "c"):
        found.register(pods(namespace))

    assert found.snapshot().watches == (
        (WatchKey("", "pods", "c"), 2),
        (WatchKey("", "pods", "a"), 1),
        (WatchKey("", "pods", "b"), 1),
    )
    assert repr(found) == "<WatchTracker: 4 watches of 3 kinds>"


@pytest.mark.parametrize(
    ("selector", "counts"),
    [
        ("spec.nodeName=node1", False),
        ("spec.nodeName==node1", False),
        ("status.phase=Running,spec.nodeName=node1", False),
        ("spec.nodeName=", True),  # those that no node has yet
        ("spec.nodeName=,status.phase=Running", True),
        ("spec.nodeName!=node1", True),
        ("metadata.name=spec.nodeName", True),
        ("xspec.nodeName=node1", True),
        ("", True),
    ],
)
def test_the_watches_for_pods_of_one_node_do_not_count(selector: str, counts: bool) -> None:  # noqa: FBT001
    query = {"fieldSelector": selector}

    assert (watch_of(writing("watch", pods("foo"), query)) is not None) is counts
    assert watch_of(writing("watch", Resource("jobs"), query)) == Resource("jobs")
    assert watch_of(writing("watch", pods(group="metrics"), query)) is not None


def test_a_request_without_a_resource_is_no_watch() -> None:
    found = WatchTracker()
    watch = found.register(watch_of(asking("/events")))

    assert not watch.is_counted
    assert found.total == found.uncounted == 0
    found.forget(watch)
    found.check()


def test_check_detects_wrong_sums() -> None:
    found = tracker()
    found.total += 1

    with pytest.raises(InvalidValueError, match="total is 7"):
        found.check()


def test_the_repr_of_a_watch_shows_its_key() -> None:
    assert "name='x'" in repr(Watch(WatchKey("", "pods", "foo", "x"), is_counted=True))
