"""What a Server document says about its admin."""

import pytest
from pydantic import ValidationError

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.admin import AdminSettings
from apf_middleware.config.dialects.admin import AdminModel
from apf_middleware.config.dialects.base import Broken


def test_without_groups_it_is_off() -> None:
    settings = AdminModel.model_validate({}).built()

    assert settings == AdminSettings("/debug/api_priority_and_fairness", ())
    assert not settings.is_on


def test_path_and_groups_can_be_chosen() -> None:
    settings = AdminModel.model_validate({"path": "/internal/apf", "groups": ["operators", "system:masters"]}).built()

    assert settings == AdminSettings("/internal/apf", ("operators", "system:masters"))
    assert settings.is_on


def test_who_may_change_things_are_others_than_who_may_look() -> None:
    settings = AdminModel.model_validate({"operators": ["ops"]}).built()

    assert (settings.groups, settings.operators) == ((), ("ops",))
    assert settings.is_on


def test_a_socket_is_not_seen_over_http() -> None:
    settings = AdminModel.model_validate({"socket": "/run/shop", "app": "shop"}).built()

    assert (settings.socket, settings.app) == ("/run/shop", "shop")
    assert not settings.is_on


@pytest.mark.parametrize(
    ("told", "path", "rule"),
    [
        ({"path": "/"}, ("path",), "below the root"),
        ({"path": "debug"}, ("path",), "below the root"),
        ({"path": "/debug/"}, ("path",), "slash at its end"),
        ({"path": "/debug?x=1"}, ("path",), "without a query"),
        ({"path": "//debug"}, ("path",), "below the root"),
        ({"groups": ["ops", "system:unauthenticated"]}, ("groups", 1), "shown credentials"),
        ({"groups": ["*"]}, ("groups", 0), "shown credentials"),
        ({"groups": ["system:anonymous"]}, ("groups", 0), "shown credentials"),
        ({"groups": [""]}, ("groups", 0), "must not be empty"),
        ({"operators": ["ops", "*"]}, ("operators", 1), "shown credentials"),
        ({"socket": "run/shop"}, ("socket",), "absolute path"),
        ({"socket": "/" + "x" * 100}, ("socket",), "must not be longer than 103 bytes"),
        ({"app": "my shop"}, ("app",), "letters, digits"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(told: dict[str, object], path: tuple[str | int, ...], rule: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AdminModel.model_validate(told)

    [broken] = caught.value.errors()[0]["ctx"]["found"]
    assert isinstance(broken, Broken)
    assert broken.path == path
    assert rule in broken.rule


@pytest.mark.parametrize(
    "told", [{"group": ["ops"]}, {"groups": "ops"}, {"groups": ["a", "a"]}, {"path": ""}, {"socket": ""}]
)
def test_other_keys_and_other_kinds_are_refused(told: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AdminModel.model_validate(told)


SERVER = "apiVersion: apf/v1\nkind: Server\nspec: {admin: {path: /debug/apf%s}, metrics: {path: %s}}"


@pytest.mark.parametrize("path", ["/debug/apf", "/debug/apf/", "/debug/apf/metrics", "/debug/apf/a/b"])
def test_metrics_are_not_where_everything_is_the_admins(path: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_text(SERVER % (", groups: [ops]", path))

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
