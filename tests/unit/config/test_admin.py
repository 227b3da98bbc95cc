"""The admin settings of a Server document."""

import pytest
from pydantic import ValidationError

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.admin import AdminSettings
from apf_middleware.config.settings import Violation, adapter_of


def read(data: dict[str, object]) -> AdminSettings:
    settings: AdminSettings = adapter_of(AdminSettings).validate_python(data)
    return settings


def test_without_groups_it_is_off() -> None:
    settings = read({})

    assert settings == AdminSettings("/debug/api_priority_and_fairness", ())
    assert not settings.is_on


def test_path_and_groups_can_be_chosen() -> None:
    settings = read({"path": "/internal/apf", "groups": ["operators", "system:masters"]})

    assert settings == AdminSettings("/internal/apf", ("operators", "system:masters"))
    assert settings.is_on


def test_editors_and_readers_are_different_groups() -> None:
    settings = read({"operators": ["ops"]})

    assert (settings.groups, settings.operators) == ((), ("ops",))
    assert settings.is_on


def test_a_socket_is_not_seen_over_http() -> None:
    settings = read({"socket": "/run/shop", "app": "shop"})

    assert (settings.socket, settings.app) == ("/run/shop", "shop")
    assert not settings.is_on


@pytest.mark.parametrize(
    ("settings", "path", "rule"),
    [
        ({"path": "/"}, ("path",), "below the root"),
        ({"path": "debug"}, ("path",), "below the root"),
        ({"path": "/debug/"}, ("path",), "slash at its end"),
        ({"path": "/debug?x=1"}, ("path",), "without a query"),
        ({"path": "//debug"}, ("path",), "below the root"),
        ({"groups": ["ops", "system:unauthenticated"]}, ("groups", 1), "authenticated callers"),
        ({"groups": ["*"]}, ("groups", 0), "authenticated callers"),
        ({"groups": ["system:anonymous"]}, ("groups", 0), "authenticated callers"),
        ({"groups": [""]}, ("groups", 0), "must not be empty"),
        ({"operators": ["ops", "*"]}, ("operators", 1), "authenticated callers"),
        ({"socket": "run/shop"}, ("socket",), "absolute path"),
        ({"socket": "/" + "x" * 100}, ("socket",), "must not be longer than 103 bytes"),
        ({"app": "my shop"}, ("app",), "letters, digits"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(
    settings: dict[str, object], path: tuple[str | int, ...], rule: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        read(settings)

    [violation] = caught.value.errors()[0]["ctx"]["found"]
    assert isinstance(violation, Violation)
    assert violation.path == path
    assert rule in violation.rule


@pytest.mark.parametrize(
    "settings", [{"group": ["ops"]}, {"groups": "ops"}, {"groups": ["a", "a"]}, {"path": ""}, {"socket": ""}]
)
def test_other_keys_and_other_kinds_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        read(settings)


def test_a_socket_that_is_switched_on_needs_its_directory() -> None:
    with pytest.raises(ConfigurationError, match=r"socket is true, but it must be the directory .* like /run/shop"):
        load_text("apiVersion: apf/v1\nkind: Server\nspec: {admin: {socket: true}}\n")


SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {admin: {path: /debug/apf%s}, metrics: {path: %s}}"


@pytest.mark.parametrize("role", ["groups", "operators"])
@pytest.mark.parametrize("path", ["/debug/apf", "/debug/apf/", "/debug/apf/metrics", "/debug/apf/a/b"])
def test_metrics_are_not_where_everything_is_the_admins(path: str, role: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_text(SERVER % (f", {role}: [ops]", path))

    said = str(caught.value)
    assert f"spec.metrics.path is {path!r}" in said
    assert "admin.path, '/debug/apf'" in said


@pytest.mark.parametrize(
    ("groups", "path"),
    [
        ("", "/debug/apf/metrics"),  # there is no admin
        (", groups: [ops]", "/debug/apf/metrics, enabled: false"),
        (", groups: [ops]", "/debug/apf-metrics"),
        (", groups: [ops]", "/debug"),
        (", groups: [ops]", "/other"),
    ],
)
def test_metrics_may_be_anywhere_else(groups: str, path: str) -> None:
    assert load_text(SERVER % (groups, path)).server.admin.path == "/debug/apf"
