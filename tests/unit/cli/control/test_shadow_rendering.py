"""The report about a configuration that is tried, as text."""

from apf_middleware.cli.control.shadow_rendering import shadow_lines
from tests.support.shadow_reports import shadow_report


def test_the_report_as_text() -> None:
    assert list(shadow_lines(shadow_report(assumed=3, unestimated=2, unplaced=1, lag=2.5))) == [
        "new.yaml: 100 requests in 60 s",
        "classified otherwise: 10 of 100 (10.00 %)",
        "same outcome (at once, waited, rejected): 80 of 90 (88.89 %)",
        "  at-once here, waited there: 10",
        "1 requests have no place there",
        "3 requests ended after the usual time of similar ones, because they weren't served here",
        "2 requests have the seats that are estimated here",
        "the report is 2.5 s behind: some requests have seats there and still wait here",
        "",
        "10 requests: all (web) → reports (batch)",
        "  GET /reports/7 by alice",
        "",
        "LEVEL  SEATS  AVERAGE  PEAK  AT-ONCE  WAITED     P50     P90     P99    REJECTED",
        "batch    3/8      1.5     8        5       2  0.020s  0.044s  0.049s  time-out:2",
        "",
        "SCHEMA   LEVEL  REQUESTS  OTHERWISE  AT-ONCE  WAITED     P99    REJECTED   AGREE",
        "reports  batch        10         10        5       2  0.049s  time-out:2  88.89%",
        "",
        "FLOW   SCHEMA   REQUESTS  OTHERWISE  WAITED     P99    REJECTED",
        "alice  reports        10         10       2  0.049s  time-out:2",
        "",
        "Note: Durations are those of the real server.",
    ]


def test_without_waits_only_the_classification_is_shown() -> None:
    found = shadow_report(classify_only=True, levels=(), schemas=(), flows=(), differences=(), caveats=(), requests=0)
    assert list(shadow_lines(found)) == [
        "new.yaml: 0 requests in 60 s",
        "classified otherwise: 10 of 0",
    ]


def test_a_failure_is_shown_on_one_line() -> None:
    lines = list(shadow_lines(shadow_report(state="failed", error="LookupError: a\nb")))
    assert lines[1] == "failed, and sees no requests any more: LookupError: a\\nb"
