"""Against the real Kubernetes code: traces of whole queue sets, and single functions."""

from pathlib import Path

import pytest

from apf_middleware.config import load
from apf_middleware.config.build import derive_classifier
from apf_middleware.testing import load_trace, replay
from tests.differential import pure
from tests.differential.pure_matching import digest_of
from tests.support.golden import golden_files, needs_golden

TRACES = golden_files("traces/*.json.gz")


@needs_golden
def test_there_are_traces_to_replay() -> None:
    """Without this, an empty folder would look like success."""
    assert len(TRACES) >= 60


@needs_golden
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_a_trace_of_kubernetes_replays_to_the_last_digit(path: Path) -> None:
    trace = load_trace(path)
    assert trace.rows

    run = replay(trace, strict_upstream=True)

    assert run.first_difference() is None
    run.queueset.check()


@needs_golden
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_with_the_defects_corrected_a_trace_ends_with_everybody_served_or_gone(path: Path) -> None:
    run = replay(load_trace(path))

    assert run.summary()["never_run"] == 0
    assert run.queueset.is_idle
    run.queueset.check()


@needs_golden
@pytest.mark.parametrize("function", pure.KNOWN)
def test_a_function_of_kubernetes_is_reproduced(function: str) -> None:
    [path] = golden_files(f"pure/{function}.json.gz")
    assert len(pure.load_cases(path)) >= 19

    assert pure.compare(path) == []


@needs_golden
def test_our_defaults_choose_as_those_of_kubernetes_do() -> None:
    """The same choices as by the recorded objects, but with the YAML that comes with this package."""
    configuration = load(defaults="kubernetes")
    classifier = derive_classifier(configuration)
    [path] = golden_files("pure/selection.json.gz")

    for case in pure.load_cases(path):
        found = classifier.classify(digest_of(case))
        assert (found.schema, found.level) == (case["flowSchema"], case["priorityLevel"])
        if configuration.levels[found.level].queuing is not None:
            assert (found.flow, found.entropy) == (case["distinguisher"], case["hash"])


def test_the_command_says_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "flow_hash.json"
    path.write_text('[{"fs": "a", "dist": "b", "hash": 1}]')

    assert pure.main([str(path)]) == 1
    assert "expected 1, got 15254180239957406297" in capsys.readouterr().out


def test_the_command_refuses_what_it_cannot_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken, unknown = tmp_path / "dealer.json", tmp_path / "something.json"
    broken.write_text("[{")

    assert pure.main([str(broken)]) == 2
    assert pure.main([str(unknown)]) == 2
    assert pure.main([]) == 2
    assert "known are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("function", "case"),
    [
        ("dealer", {"deck": 8, "hand": 3, "hash": 400900100100, "cards": [4, 7, 6]}),
        ("dealer", {"deck": 8, "hand": 3, "hash": 1, "error": "deckSize 8 or handSize 3 is not positive"}),
        ("dealer", {"deck": 1, "hand": 2, "hash": 1, "error": "deckSize 1 or handSize 2 is not positive"}),
        ("dealer", {"deck": 1, "hand": 2, "hash": 1, "cards": [0, 1]}),
        ("conc_alloc", {"sum": 1, "items": [{"lower": 0, "upper": 2, "target": 1}], "alloc": [1], "fair_prop": 0.5}),
        ("conc_alloc", {"sum": 5, "items": [], "error": "negative sums are not supported"}),
        (
            "seat_seconds",
            {
                "seats": 1,
                "duration_ns": 10,
                "seats_times_duration": 2,
                "ss": 1,
                "per": 1,
                "ss_duration_per_seat_ns": 10,
                "ss_string": "0.00000001ss",
            },
        ),
    ],
)
def test_a_wrong_record_is_noticed(function: str, case: dict[str, object]) -> None:
    """The comparison itself must be able to fail."""
    assert pure.CASES[function](case) is not None
