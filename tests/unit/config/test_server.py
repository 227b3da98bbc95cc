"""The Server document."""

import pytest

from apf_middleware.config import Route, ServerSettings, load_text, read_source
from apf_middleware.config.admin import AdminSettings
from apf_middleware.config.authentication import TokenSettings
from apf_middleware.config.metrics import MetricsSettings

SECOND = 10**9

SERVER = """\
apiVersion: apf/v1
kind: Server
spec:
  seats: 50
  requestTimeout: 30s
  borrowing: periodic
  discipline: max-min-serial
  strictUpstream: true
  defaults: none
  resolver: web
  routes:
  - {path: "/tenants/{namespace}/orders/{name}", resource: orders, methods: [GET, M-SEARCH]}
  authentication:
  - {type: tokens, file: tokens.csv}
  metrics: {path: /numbers, prefix: shop}
  admin: {path: /debug}
"""


def test_the_server() -> None:
    assert load_text(SERVER).server == ServerSettings(
        seats=50,
        request_timeout_ns=30 * SECOND,
        borrowing="periodic",
        discipline="max-min-serial",
        strict_upstream=True,
        defaults="none",
        routes=(Route("/tenants/{namespace}/orders/{name}", "orders", methods=("GET", "M-SEARCH")),),
        authentication=(TokenSettings("tokens.csv"),),
        metrics=MetricsSettings(path="/numbers", prefix="shop"),
        admin=AdminSettings("/debug"),
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "rule"),
    [
        ("seats: 50", "seats: 0", 4, "spec.seats", "at least 1"),
        ("requestTimeout: 30s", "requestTimeout: 0s", 5, "spec.requestTimeout", "more than zero"),
        ("strictUpstream: true", "strictUpstream: yes", 8, "spec.strictUpstream", "true or false"),
        ("defaults: none", "defaults: all", 9, "spec.defaults", "'web', 'kubernetes' or 'none'"),
        ("resource: orders, ", "", 12, "spec.routes[0].resource", "required"),
        ("[GET, ", "[get, ", 12, "spec.routes[0].methods[0]", "upper case"),
        (
            "  routes:\n",
            "  routes:\n  - {path: /a/*, resource: a}\n  - {path: /a/*, resource: b}\n",
            11,
            "spec.routes",
            "same paths",
        ),
        ("/orders/", "/or{ders/", 12, "spec.routes[0].path", "whole segment"),
        ("type: tokens, ", "", 14, "spec.authentication[0].type", "must be one of certificate, function"),
        ("metrics: {path: /numbers, prefix: shop}", "metrics: on", 15, "spec.metrics", "must be a mapping"),
        ("path: /debug", "path: /numbers, operators: [staff]", 15, "spec.metrics.path", "at or below admin.path"),
    ],
)
def test_what_is_wrong_with_the_server_is_reported(old: str, new: str, line: int, field: str, rule: str) -> None:
    errors = read_source(SERVER.replace(old, new, 1)).errors

    assert any((one.place.line, one.field) == (line, field) and rule in one.rule for one in errors), errors


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ("trustedProxies: [10.0.0.0/8]", "Known keys: header, networks, unix"),
        ("gates: [db]", "Known keys: capacity, cost, key, maxParked, name, onError, per, release, status, tokens"),
        ("authentication: [jwt]", ""),
        ("authentication: [{type: JWT}]", "Did you mean jwt?"),
        ("SEATS: 5", "Did you mean seats?"),
        ("discipline: MAX-MIN-SERIAL", "Did you mean max-min-serial?"),
    ],
)
def test_a_hint_has_the_keys_of_a_mapping_and_words_of_another_case(settings: str, hint: str) -> None:
    [error] = read_source(f"apiVersion: apf/v1\nkind: Server\nspec: {{{settings}}}\n").errors

    assert error.hint == hint
