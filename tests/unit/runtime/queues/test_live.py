"""Live changes: what a reload keeps of them."""

from apf_middleware.config import load_text
from tests.support.named_queues import FAMILY, NamedQueueServer, level, server

ONE = server(10) + level("web", "minSeats: 0, maxSeats: 1")


def test_live_changes_outlive_a_reload_of_unrelated_documents_and_are_marked() -> None:
    house = NamedQueueServer(ONE)
    house.queues.create("batch", max=3)
    house.queues.update("web", weight=9)
    house.queues.operate("web", "pause")

    house.reload(ONE + level("new"))

    assert house.state("web") == "Paused"
    assert {one.name: one.source for one in house.queues.list()} == {
        "batch": "live",
        "catch-all": "file",
        "exempt": "file",
        "new": "file",
        "web": "live",
    }
    assert {(one.queue, one.field, one.file, one.live) for one in house.queues.drift()} == {
        ("batch", "queue", None, "batch"),
        ("web", "weight", 30, 9),
        ("web", "state", "open", "paused"),
    }


def test_a_newer_document_replaces_an_older_live_change() -> None:
    house = NamedQueueServer(ONE)
    house.queues.update("web", weight=9)
    house.reload(server(10) + level("web", "weight: 5"))

    assert house.queues.status("web").weight == 5
    assert house.queues.drift() == ()


def test_a_deleted_queue_stays_away_until_its_document_changes() -> None:
    house = NamedQueueServer(ONE)
    house.queues.delete("web", cascade=True)
    house.reload(ONE + level("new"))
    assert "web" not in house.controller.levels
    assert [(one.queue, one.file, one.live) for one in house.queues.drift()] == [("web", "web", None)]

    house.reload(server(10) + level("web", "weight: 5"))
    assert house.state("web") == "Open"


def test_committing_the_document_ends_the_drift() -> None:
    import yaml  # noqa: PLC0415 - only this test needs it

    house = NamedQueueServer(FAMILY)
    house.queues.create("batch", max=3, min=1, parent="tenants", reclaimable=False, priority=2)
    [running] = house.arrive("batch")
    written = yaml.safe_dump_all(house.queues.document("batch"))

    house.reload(FAMILY + "---\n" + written)

    assert house.queues.drift() == ()
    assert house.queues.status("batch").source == "file"
    assert house.queues.status("batch").running == 1
    house.end(running)


def test_a_change_that_files_no_longer_allow_ends() -> None:
    house = NamedQueueServer(FAMILY)
    house.queues.create("batch", parent="tenants", max=6)
    house.reload(server(10) + level("tenants", "maxSeats: 5") + level("free", "parent: tenants"))
    assert "batch" not in house.configuration.levels

    house.reload(server(10) + level("free"))
    assert house.queues.drift() == ()


def test_a_change_back_is_no_change() -> None:
    house = NamedQueueServer(ONE)
    house.queues.operate("web", "close")
    house.queues.operate("web", "open")

    assert house.queues.drift() == ()
    assert house.configuration == load_text(ONE)
