"""Path templates and URL patterns."""

from dataclasses import replace

import pytest

from apf_middleware.classification import (
    FlowSchema,
    accepts,
)
from tests.support.rules import PATH, http, urls
from tests.support.schemas import classifier


@pytest.mark.parametrize(
    "url", ["/healthz", "/healthz/", "/healthz/*", "/healthz/ping", "/", "/*", "*", "", "/healthz*"]
)
def test_a_url_also_covers_paths_below_it(url: str) -> None:
    assert accepts(urls(url), PATH)


@pytest.mark.parametrize("url", ["/health", "/health*", "/healthz/pin", "/healthz/ping/", "/healthz/ping/*", "healthz"])
def test_a_url_does_not_cover_a_part_of_a_segment(url: str) -> None:
    assert not accepts(urls(url), PATH)


@pytest.mark.parametrize(
    ("template", "path", "covered"),
    [
        ("/a/{x}", "/a/1", True),
        ("/a/{x}", "/a/", False),
        ("/a/{x}", "/a/1/", False),
        ("/a/{x}", "/a/1/2", False),
        ("/a/*/c", "/a/b/c", True),
        ("/a/*/c", "/a//c", False),
        ("/a/*", "/a", True),
        ("/a/*", "/a/", True),
        ("/a/*", "/a/b/c", True),
        ("/a/*", "/ab", False),
        ("/a.b", "/axb", False),
        ("/{x}/*", "/a", True),
        ("/{x}/*", "/", False),
        ("/*", "/anything/at/all", True),
        ("*", "*", True),
        ("/", "/", True),
        ("/", "/a", False),
        ("/a/{x}", "/a/\n", True),
        ("/a/*", "/a/\n", True),
        ("/a/", "/a/\n", True),
        ("/a/", "/a/\n\n", False),
        ("/a", "/a/\n", False),
        ("/", "/\n", True),
    ],
)
def test_a_template_covers_whole_segments(template: str, path: str, covered: bool) -> None:  # noqa: FBT001
    rule, digest = http(paths=(template,)), replace(PATH, path=path)

    assert accepts(rule, digest) is covered
    assert (classifier(FlowSchema("a", "b", rules=(rule,))).classify(digest).schema == "a") is covered
