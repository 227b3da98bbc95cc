"""The settings of criticality, of the server, of rules and of schemas."""

import pytest

from apf_middleware.config import Configuration, ConfigurationError, load_text
from apf_middleware.config.criticality import CriticalitySettings
from apf_middleware.config.emit import emit

TEXT = """
apiVersion: apf/v1
kind: Server
spec: {spec}
---
apiVersion: apf/v1
kind: PriorityLevel
metadata: {{name: batch}}
spec: {{shares: 10}}
---
apiVersion: apf/v1
kind: FlowSchema
metadata: {{name: batch}}
spec: {{level: batch, precedence: 10, {schema}rules: [{{httpRules: [{rule}]}}]}}
"""


def configured(spec: str = "{criticality: {}}", rule: str = "{}", schema: str = "") -> Configuration:
    return load_text(TEXT.format(spec=spec, rule=rule, schema=schema))


def test_without_it_none_is_read() -> None:
    assert configured("{}").server.criticality is None


def test_defaults() -> None:
    assert configured().server.criticality == CriticalitySettings({"x-criticality": "name"}, "critical", ())


def test_rules_and_schemas_name_criticalities() -> None:
    found = configured(rule="{criticality: [sheddable, sheddablePlus]}", schema="criticality: sheddable, ")
    [schema] = [one for one in found.schemas if one.name == "batch"]

    assert schema.criticality == "sheddable"
    assert schema.rules[0].http_rules[0].criticality == ("sheddable", "sheddablePlus")  # type: ignore[union-attr]


def test_what_is_written_is_read_again() -> None:
    spec = "{criticality: {headers: {priority: urgency, baggage: baggage}, usual: sheddablePlus, groups: [ops]}}"
    configuration = configured(spec, "{criticality: [critical]}", "criticality: sheddable, ")

    assert load_text(emit(configuration)) == configuration


@pytest.mark.parametrize(
    ("spec", "rule", "schema", "said"),
    [
        ("{criticality: {usual: urgent}}", "{}", "", "spec.criticality.usual is 'urgent'"),
        ("{criticality: {headers: {X-Urgent: name}}}", "{}", "", "its name must be a header's, in lower case"),
        ("{criticality: {headers: {x-urgent: number}}}", "{}", "", "spec.criticality.headers.x-urgent is 'number'"),
        ("{}", "{criticality: [urgent]}", "", "criticality[0] is 'urgent'"),
        ("{}", "{}", "criticality: urgent, ", "spec.criticality is 'urgent'"),
    ],
)
def test_wrong_settings_are_reported(spec: str, rule: str, schema: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(spec, rule, schema)
    assert said in str(caught.value)
