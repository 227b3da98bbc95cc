"""The names of reasons, which dashboards rely on."""

from apf_middleware.adaptive import ElasticReason


def test_reasons_have_the_names_of_metrics() -> None:
    assert [reason.value for reason in ElasticReason] == ["open", "cut-lag", "held-floor", "grew"]
