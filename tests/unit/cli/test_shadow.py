"""``apf shadow``: what it asks the workers, and what it makes of their answers."""

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from apf_middleware.asgi.admin.documents import ShadowDocument
from apf_middleware.cli.control.workers import Reply
from apf_middleware.snapshots.shadow import ShadowSnapshot
from tests.support.command_line import Outcome, run_apf
from tests.support.shadow_reports import shadow_report
from tests.support.worker_replies import WORKER, Workers, refuses, silent

NEW = "apiVersion: apf/v1\nkind: Server\nspec: {seats: 20}\n"


def says(worker: str, found: ShadowSnapshot | None) -> Reply[ShadowDocument]:
    return Reply(worker, 200, ShadowDocument(WORKER, found))


@pytest.fixture
def new(tmp_path: Path) -> Path:
    path = tmp_path / "new.yaml"
    path.write_text(NEW)
    return path


def shadow(*arguments: object) -> Outcome:
    return run_apf("shadow", *arguments, "--server", "http://127.0.0.1:1")


@pytest.mark.parametrize("options", [(), ("--classify-only",)])
def test_a_configuration_is_tried_in_all_workers(workers: Workers, new: Path, options: tuple[str, ...]) -> None:
    workers.replies = [says("1", shadow_report()), says("2", shadow_report())]
    result = shadow("start", new, *options)

    body = {"configuration": NEW, "source": str(new), "classifyOnly": bool(options)}
    assert (result.returncode, workers.asked) == (0, [("PUT", "/shadow", body)])
    assert result.stdout == f"{new} is tried in 2 of 2 workers; see it with: apf shadow report\n"


def test_a_broken_configuration_is_not_sent(workers: Workers, new: Path) -> None:
    new.write_text(NEW.replace("20", "-20"))
    result = shadow("start", new)

    assert (result.returncode, workers.asked) == (1, [])
    assert f"{new}:3" in result.stderr


def test_what_is_no_file_is_not_sent(workers: Workers, new: Path) -> None:
    for wrong, why in ((new.parent, "is a folder; give one file"), (new.parent / "*.yaml", "no such file")):
        result = shadow("start", wrong)

        assert (result.returncode, workers.asked) == (2, [])
        assert why in result.stderr


@pytest.mark.parametrize(("content", "why"), [(b"\xff\xfe", "must be UTF-8"), (b"# later", "there must be an object")])
def test_what_is_no_configuration_is_not_sent(workers: Workers, new: Path, content: bytes, why: str) -> None:
    new.write_bytes(content)
    result = shadow("start", new)

    assert (result.returncode, workers.asked) == (1, [])
    assert why in result.stderr


def test_a_device_without_an_end_is_not_sent(workers: Workers) -> None:
    outcome = run_apf("shadow", "start", "/dev/zero", "--server", "http://127.0.0.1:1")

    assert outcome.returncode == 1
    assert "a file must not be longer than 1048576 bytes" in outcome.stderr
    assert workers.asked == []


def test_a_file_is_read_once_so_that_it_may_be_a_pipe(workers: Workers, tmp_path: Path) -> None:
    workers.replies = [says("1", shadow_report())]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = Thread(target=pipe.write_text, args=(f"\ufeff{NEW}",), daemon=True)
    writing.start()
    result = shadow("start", pipe)
    writing.join()

    body = {"configuration": NEW, "source": str(pipe), "classifyOnly": False}
    assert (result.returncode, workers.asked) == (0, [("PUT", "/shadow", body)])


def test_the_report_is_that_of_all_workers(workers: Workers) -> None:
    workers.replies = [says("1", shadow_report()), says("2", shadow_report())]
    result = shadow("report")

    assert (result.returncode, workers.asked) == (0, [("GET", "/shadow")])
    assert result.stdout.startswith("new.yaml: 200 requests in 60 s\n")

    found = json.loads(shadow("report", "-o", "json").stdout)
    assert (found["requests"], found["levels"][0]["level"]) == (200, "batch")


def test_there_may_be_nothing_to_report(workers: Workers) -> None:
    workers.replies = [says("1", None)]
    result = shadow("report")

    assert result.returncode == 1
    assert result.stderr == "apf: no configuration is tried now; begin with: apf shadow start NEW.yaml\n"


def test_workers_that_try_nothing_are_named(workers: Workers) -> None:
    workers.replies = [says("1", shadow_report()), says("2", None)]
    result = shadow("report")

    assert result.returncode == 4
    assert "worker 1 tries new.yaml" in result.stderr
    assert "worker 2 tries nothing" in result.stderr


def test_the_end_of_a_trial_shows_its_last_report(workers: Workers) -> None:
    workers.replies = [says("1", shadow_report())]
    result = shadow("stop")

    assert (result.returncode, workers.asked) == (0, [("DELETE", "/shadow")])
    assert result.stdout.startswith("new.yaml: 100 requests in 60 s\n")


def test_a_promotion_says_what_the_next_reload_does(workers: Workers) -> None:
    workers.replies = [says("1", shadow_report()), says("2", shadow_report())]
    result = shadow("promote")

    assert (result.returncode, workers.asked) == (0, [("POST", "/shadow/promote", {})])
    assert result.stdout.splitlines() == [
        "new.yaml is in force until the next reload or restart.",
        "The server's own files are unchanged: write the configuration there to keep it.",
    ]


@pytest.mark.parametrize(("replies", "status"), [([silent("1")], 3), ([refuses("1", 404, "No configuration")], 1)])
@pytest.mark.parametrize("command", ["report", "stop", "promote"])
def test_workers_that_fail(workers: Workers, command: str, replies: list[Reply[Any]], status: int) -> None:
    workers.replies = replies
    assert shadow(command).returncode == status


def test_output_for_programs_after_a_start(workers: Workers, new: Path) -> None:
    workers.replies = [says("1", shadow_report()), silent("2")]
    result = shadow("start", new, "-o", "json")

    assert result.returncode == 4
    assert json.loads(result.stdout)["source"] == "new.yaml"
