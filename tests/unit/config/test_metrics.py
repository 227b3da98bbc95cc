from ipaddress import ip_network

import pytest
from pydantic import ValidationError

from apf_middleware.config.metrics import MetricsSettings
from apf_middleware.config.settings import adapter_of


def built(**fields: object) -> MetricsSettings:
    settings: MetricsSettings = adapter_of(MetricsSettings).validate_python(fields)
    return settings


def test_by_default_metrics_are_served_to_all() -> None:
    assert built() == MetricsSettings() == MetricsSettings(path="/metrics", prefix="apf", exposed_to=())


def test_all_settings_can_be_written() -> None:
    settings = built(path="/internal/metrics", prefix="apiserver_flowcontrol", exposedTo=["10.0.0.0/8", "::1"])

    networks = (ip_network("10.0.0.0/8"), ip_network("::1/128"))
    assert settings == MetricsSettings(path="/internal/metrics", prefix="apiserver_flowcontrol", exposed_to=networks)


def test_metrics_that_are_not_enabled_have_no_path() -> None:
    assert built(enabled=False, path="/m").served_path is None


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("path", "metrics", "must be one path"),
        ("path", "/metrics?a=b", "must be one path"),
        ("path", "/m etrics", "must be one path"),
        ("path", "/m/{name}", "must be one path"),
        ("path", "/m\n", "must be one path"),
        ("path", "", "must not be empty"),
        ("prefix", "1a", "must be letters"),
        ("prefix", "apf_", "must be letters"),
        ("prefix", "a-b", "must be letters"),
        ("prefix", "a b", "must be letters"),
        ("prefix", "a:b", "must be letters"),
        ("prefix", "_a", "must be letters"),
        ("prefix", "é", "must be letters"),
        ("prefix", "apf\n", "must be letters"),
        ("prefix", "", "must not be empty"),
        ("prefix", 3, "valid string"),
        ("exposedTo", ["10.0.0.1/8"], "must be an IP address, or a network"),
        ("exposedTo", ["localhost"], "must be an IP address, or a network"),
        ("exposedTo", ["::1", "::1"], "more than once"),
        ("buckets", [1], "unexpected_keyword_argument"),
    ],
)
def test_contradictory_settings_are_refused(field: str, value: object, rule: str) -> None:
    with pytest.raises(ValidationError) as caught:
        built(**{field: value})

    assert rule in str(caught.value.errors())


@pytest.mark.parametrize("prefix", ["a", "apf", "A1_b"])
def test_a_prefix_begins_a_name(prefix: str) -> None:
    assert built(prefix=prefix).prefix == prefix


@pytest.mark.parametrize(
    ("address", "exposed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.1.2.3", False),
        ("::ffff:11.1.2.3", False),
        ("::1", True),
        ("::2", False),
        ("testclient", False),
        ("", False),
        (None, False),
    ],
)
def test_metrics_are_exposed_to_the_networks_that_are_named(address: str | None, *, exposed: bool) -> None:
    settings = built(exposedTo=["10.0.0.0/8", "::1"])

    assert settings.exposes_to(address) is exposed


def test_metrics_are_exposed_to_all_without_a_list_of_networks() -> None:
    assert MetricsSettings().exposes_to(None)
    assert MetricsSettings().exposes_to("11.1.2.3")
