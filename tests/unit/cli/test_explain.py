import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import invoke

SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {seats: 4, defaults: kubernetes}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "apf.yaml"
    path.write_text(SERVER)
    return path


def explained(config: Path, *options: str, url: str = "/api/v1/pods") -> dict[str, Any]:
    result = invoke("explain", *options, str(config), "GET", url, "--output", "json")
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.output)
    return told


@pytest.mark.parametrize(
    ("options", "groups", "schema"),
    [
        (
            ("--user", "system:serviceaccount:foo:bar"),
            ["system:serviceaccounts", "system:serviceaccounts:foo", "system:authenticated"],
            "service-accounts",
        ),
        (
            ("--user", "system:serviceaccount:foo:bar", "--group", "a", "--group", "system:serviceaccounts"),
            ["a", "system:serviceaccounts", "system:serviceaccounts:foo", "system:authenticated"],
            "service-accounts",
        ),
        (("--user", "system:serviceaccount:foo"), ["system:authenticated"], "global-default"),
        (("--user", "alice"), ["system:authenticated"], "global-default"),
        (("--user", "system:anonymous"), ["system:unauthenticated"], "global-default"),
        ((), ["system:unauthenticated"], "global-default"),
        (("--group", "a"), ["a", "system:unauthenticated"], "global-default"),
    ],
)
def test_a_user_has_the_groups_that_a_cluster_adds(
    config: Path, options: tuple[str, ...], groups: list[str], schema: str
) -> None:
    told = explained(config, *options)

    assert told["groups"] == groups
    assert told["schema"] == schema


def test_a_level_never_has_more_seats_than_the_server(config: Path) -> None:
    seats = explained(config, "--user", "system:serviceaccount:foo:bar")["seats"]

    assert seats["max"] == 4
    assert seats["min"] <= seats["nominal"] <= seats["max"]


def test_a_request_without_seats_is_explained(config: Path) -> None:
    told = explained(config, "--user", "alice", url="/api/v1/namespaces/shop/pods/web-0/log")

    assert told["resource"] == "pods/log"
    assert told["served"] == "at once, without a seat, as all long-running requests but watches"
    assert "level" not in told
