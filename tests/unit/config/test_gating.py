"""The gates of a request."""

import pytest

from apf_middleware.classification import ANONYMOUS, Classification, RequestDigest
from apf_middleware.config import Configuration, load_text
from apf_middleware.config.gating import Gating
from tests.support.gate_documents import SERVER


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return load_text(SERVER)


@pytest.mark.parametrize(
    ("path", "schema", "level", "gates"),
    [
        ("/", "orders", "crowd", ("quota", "db")),
        ("/reports/1", "orders", "crowd", ("quota", "mail", "db")),
        ("/reports/1", "catch-all", "catch-all", ("mail", "db")),
        ("/", "catch-all", "catch-all", ()),
        ("/reports/1", "probes", "exempt", ()),
    ],
)
def test_gates_are_asked_in_order_of_schema_route_and_level(
    configuration: Configuration, path: str, schema: str, level: str, gates: tuple[str, ...]
) -> None:
    digest = RequestDigest(ANONYMOUS, "get", path, method="GET")
    assert Gating(configuration).names(digest, Classification(schema, level, "", 0)) == gates


def test_the_gate_of_headroom_is_asked_last() -> None:
    text = SERVER.replace("metadata: {name: crowd}\nspec: {", "metadata: {name: crowd}\nspec: {headroom: 20%, ")
    configuration = load_text(text)
    digest = RequestDigest(ANONYMOUS, "get", "/", method="GET")
    names = Gating(configuration).names(digest, Classification("orders", "crowd", "", 0))

    assert configuration.has_headroom
    assert names == ("quota", "db", "headroom:crowd")
