"""What a problem says."""

import pytest

from apf_middleware.config import ConfigurationError, Place, Problem, Severity, load_text
from apf_middleware.config.problems import MOST_LINES, Absent, Problems, dotted
from apf_middleware.exceptions import APFError


def test_a_problem_has_place_field_value_rule_and_hint() -> None:
    problem = Problem(Place("f.yaml", 2, 17), "spec.shares", -1, "it must be at least 0", "Take more")

    assert str(problem) == "f.yaml:17 (document 2): error: spec.shares is -1, but it must be at least 0. Take more"
    assert problem.as_dict() == {
        "severity": "error",
        "file": "f.yaml",
        "document": 2,
        "line": 17,
        "field": "spec.shares",
        "value": "-1",
        "rule": "it must be at least 0",
        "hint": "Take more",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 10_000, "'" + "x" * 79 + "…"),
        (list(range(1000)), "a list of 1000"),
        (r"\d's", r"'\d''s'"),
        ("\x1b[2J", r"'\x1b[2J'"),
        (Absent.ABSENT, "absent"),
        (None, "null"),
        (True, "true"),
        ({"handSize": 4, "exact": [False, "a"]}, "{handSize: 4, exact: [false, 'a']}"),
    ],
)
def test_values_are_shown_briefly(value: object, shown: str) -> None:
    assert f"f is {shown}, but no" in str(Problem(Place("p"), "f", value, "no"))


def test_paths_are_written_with_dots_and_indexes() -> None:
    assert dotted(("items", 3, "spec", "rules", 0)) == "items[3].spec.rules[0]"
    assert dotted(()) == ""


def test_problems_come_in_the_order_of_their_places() -> None:
    problems = Problems()
    problems.error(Place("b", 1, 1), "second")
    problems.warn(Place("a", 1, 9), "first")

    assert [problem.rule for problem in problems] == ["first", "second"]
    assert [problem.severity for problem in problems] == [Severity.WARNING, Severity.ERROR]


def test_problems_can_be_dropped() -> None:
    problems = Problems()
    alike = [problems.error(Place("a"), "wrong") for _ in range(2)]
    problems.drop([alike[0]])
    problems.drop([alike[0]])

    assert list(problems) == [alike[1]]
    assert len(problems) == 1


def test_the_error_has_one_line_for_each() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_text("apiVersion: a\n---\nkind: b\n", "f.yaml")

    assert isinstance(caught.value, APFError)
    assert isinstance(caught.value, ValueError)
    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == ["f.yaml:1", "f.yaml:3"]


def test_very_many_problems_are_cut() -> None:
    error = ConfigurationError([Problem(Place("f"), "a", 1, "no")] * (MOST_LINES + 5))

    assert str(error).endswith("… and 5 more")
    assert len(error.problems) == MOST_LINES + 5
