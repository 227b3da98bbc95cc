"""The settings of load reports and readiness: their defaults and their rules."""

import pytest

from apf_middleware.config import ConfigurationError, load_text
from apf_middleware.config.emit import emit
from apf_middleware.config.load_reports import LoadReportSettings, ReadinessSettings
from apf_middleware.config.server import ServerSettings

SECOND = 10**9
_NAMED = "---\napiVersion: apf/v1\nkind: PriorityLevel\nmetadata: {{name: {}}}\nspec: {{{}}}\n"
LEVEL = _NAMED.format("web", "shares: 10")
FAMILY = _NAMED.format("parent", "shares: 10") + _NAMED.format("child", "parent: parent, weight: 1")


def server(spec: str) -> ServerSettings:
    return load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {spec}\n{LEVEL}{FAMILY}").server


def test_without_them_there_are_none() -> None:
    assert (server("{}").load_reports, server("{}").readiness) == (None, None)


def test_defaults() -> None:
    assert server("{loadReports: {}}").load_reports == LoadReportSettings("binary", for_everybody=False, path="")
    assert server("{readiness: {levels: [web]}}").readiness == ReadinessSettings(
        ("web",), "/readyz", 2 * SECOND, 10 * SECOND
    )


def test_null_is_no_header() -> None:
    """It is the only key of which null isn't the default."""
    assert server("{loadReports: {header: null}}").load_reports == LoadReportSettings(header=None)


def test_what_is_written_is_read_again() -> None:
    spec = "{loadReports: {header: null, path: /load}, readiness: {levels: [web], after: 0s}, admin: {path: /load}}"
    configuration = load_text(f"apiVersion: apf/v1\nkind: Server\nspec: {spec}\n{LEVEL}")

    assert load_text(emit(configuration)) == configuration


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("{loadReports: {header: xml}}", "spec.loadReports.header is 'xml'"),
        ("{loadReports: {path: load}}", "spec.loadReports.path is 'load', but it must be one path that begins with /"),
        ("{readiness: {}}", "levels"),
        ("{readiness: {levels: []}}", "spec.readiness.levels is [], but there must be at least one"),
        ("{readiness: {levels: [web], path: 'a?b'}}", "spec.readiness.path is 'a?b', but it must be one path"),
        ("{readiness: {levels: [web, none]}}", "spec.readiness.levels[1] is 'none', but there is no such level"),
        ("{readiness: {levels: [exempt]}}", "but it must be a level that isn't exempt"),
        ("{readiness: {levels: [web, parent]}}", "levels[1] is 'parent', but a parent takes no requests itself"),
        ("{loadReports: {path: /metrics}}", "spec.loadReports.path is '/metrics', but it is metrics.path, too"),
        ("{loadReports: {path: /readyz}, readiness: {levels: [web]}}", "path is '/readyz', but it is loadReports.path"),
        (
            "{readiness: {levels: [web], path: /apf}, admin: {groups: [staff], path: /apf}}",
            "at or below admin.path, '/apf'",
        ),
        (
            "{readiness: {levels: [web], path: /apf/up}, admin: {operators: [sre], path: /apf}}",
            "at or below admin.path",
        ),
        (
            "{loadReports: {path: /apf/load}, admin: {operators: [sre], path: /apf}}",
            "spec.loadReports.path is '/apf/load'",
        ),
        ("{readiness: {levels: [web], path: /is%20up}}", "path is '/is%20up', but it must not be percent-encoded"),
        (
            "{admin: {operators: [sre], path: /a%2fb}}",
            "spec.admin.path is '/a%2fb', but it must not be percent-encoded",
        ),
        ("{metrics: {path: //numbers}}", "spec.metrics.path is '//numbers', but it must not have '//'"),
    ],
)
def test_wrong_settings_are_reported(spec: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        server(spec)
    assert said in str(caught.value)
