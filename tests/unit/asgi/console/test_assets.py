"""The files of the page: their headers, their size, and that they contain nothing which the policy forbids."""

import re
from pathlib import Path

import pytest

from apf_middleware.asgi.console.assets import INDEX, POLICY, answer_asset, assets

MOST_BYTES = 150_000


def test_all_files_together_are_small() -> None:
    assert INDEX in assets()
    assert sum(map(len, assets().values())) <= MOST_BYTES


def test_an_unknown_file_raises() -> None:
    with pytest.raises(KeyError):
        answer_asset("../assets.py", "")


@pytest.mark.parametrize("name", sorted(assets()))
def test_each_file_is_protected(name: str) -> None:
    answer = answer_asset(name, "")
    headers = {key.decode(): value.decode() for key, value in answer.headers}

    assert answer.status == 200
    assert answer.body == assets()[name]
    assert int(headers["content-length"]) == len(answer.body)
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-cache"
    assert headers["content-type"].startswith(("text/", "image/svg+xml"))


def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    first = dict(answer_asset("console.css", "").headers)
    tag = first[b"etag"].decode()

    same, weak = answer_asset("console.css", tag), answer_asset("console.css", f'"other", W/{tag}')
    other = answer_asset("console.js", tag)

    assert (same.status, same.body, weak.status) == (304, b"", 304)
    assert other.status == 200


def test_the_policy_allows_nothing_but_own_files() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))

    assert rules.pop("default-src") == "'none'"
    assert set(rules.values()) == {"'self'", "'none'"}
    forbidden = {name for name, value in rules.items() if value == "'none'"}
    assert forbidden == {"base-uri", "frame-ancestors", "form-action"}


def test_there_is_no_inline_code_and_no_markup_from_data() -> None:
    page = assets()[INDEX].decode()
    scripts = "".join(content.decode() for name, content in assets().items() if name.endswith(".js"))

    assert re.findall(r"<script(?![^>]*src=)|\son\w+=|style=|<style", page) == []
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", scripts) == []


def test_no_file_names_another_host() -> None:
    text = "".join(content.decode() for content in assets().values()).replace("http://www.w3.org/2000/svg", "")

    assert re.findall(r"https?://|//[a-z0-9-]+\.[a-z]{2,}", text) == []


def test_every_file_that_a_module_or_the_page_names_is_there() -> None:
    named = set()
    for name, content in assets().items():
        if Path(name).suffix in {".js", ".html"}:
            named |= set(re.findall(r"""(?:from "\./|href="|src=")([\w.-]+\.\w+)""", content.decode()))

    assert named | {INDEX} == set(assets())


def test_each_id_that_a_module_asks_for_is_in_the_page_once() -> None:
    page = assets()[INDEX].decode()
    ids = re.findall(r'\bid="([\w-]+)"', page)
    asked = {one for content in assets().values() for one in re.findall(r'\bat\("([\w-]+)"\)', content.decode())}

    assert len(ids) == len(set(ids))
    assert asked - set(ids) == set()
