"""What the demo shows must be so: bad without fairness, good with it, and the same amount of work done."""

from functools import cache

import pytest
from rich.console import Console

from examples.elephant.figures import Figures, percentile, summarise
from examples.elephant.picture import WIDTH, bar_cells, draw
from examples.elephant.report import report, sentences
from examples.elephant.simulation import MS, Backend, Load, fair_backend, plain_backend

LOADS = pytest.mark.parametrize(
    "load",
    [Load(), Load(mice=10), Load(seed=2), Load(mice=10, seed=3)],
    ids=["as shown", "10 mice", "seed 2", "seed 3"],
)


@cache
def play(load: Load) -> tuple[Backend, Backend]:
    backends = plain_backend(load), fair_backend(load)
    for backend in backends:
        backend.run()
        backend.queueset.check()
    return backends


def measure(load: Load) -> tuple[Figures, Figures]:
    plain, fair = play(load)
    return summarise(plain), summarise(fair)


def render(*renderables: object) -> list[str]:
    console = Console(width=WIDTH, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(*renderables)
    return capture.get().splitlines()


@LOADS
def test_without_fairness_the_mice_wait_behind_the_whole_elephant(load: Load) -> None:
    plain, _ = measure(load)
    behind_the_elephant = load.connections * load.service_ns / load.seats / MS
    assert plain.mice.p50 > behind_the_elephant
    assert plain.prompt < 0.01
    assert plain.jain_pace < 0.3


@LOADS
def test_with_fairness_the_mice_hardly_wait(load: Load) -> None:
    plain, fair = measure(load)
    assert fair.mice.p99 <= 2 * load.service_ns / MS
    assert fair.mice.p99 < plain.mice.p99 / 10
    assert fair.prompt == 1
    assert fair.jain_pace > 0.99


@LOADS
def test_fairness_costs_no_goodput(load: Load) -> None:
    plain, fair = measure(load)
    assert fair.goodput == pytest.approx(plain.goodput, rel=0.01)
    assert fair.goodput == pytest.approx(load.seats * 1000 * MS / load.service_ns, rel=0.01)
    assert fair.elephant.p50 == pytest.approx(plain.elephant.p50, rel=0.01)
    assert plain.rejected == fair.rejected == 0


def test_the_plain_backend_is_first_in_first_out() -> None:
    plain, _ = play(Load())
    load = plain.load
    jitter_ns = 2 * load.service_jitter * load.service_ns
    served = sorted((one for flow in plain.flows for one in flow.served), key=lambda one: one.sent_at)
    latest = 0
    for one in served:
        assert one.answered_at >= latest - jitter_ns
        latest = max(latest, one.answered_at)


def test_both_backends_get_the_same_load() -> None:
    plain, fair = play(Load())
    assert [mouse.sent_at for mouse in plain.mice] == [mouse.sent_at for mouse in fair.mice]
    for backend in (plain, fair):
        assert len(backend.elephant.sent_at) - len(backend.elephant.served) == backend.load.connections


def test_a_load_repeats_to_the_last_digit() -> None:
    again = fair_backend(Load())
    again.run()
    assert summarise(again) == measure(Load())[1]


def test_drawing_frames_does_not_change_the_result() -> None:
    framed = fair_backend(Load())
    for now in range(0, framed.load.lasts_ns + 1, 50 * MS):
        framed.run(now)
    assert summarise(framed) == measure(Load())[1]


def test_the_report_describes_the_measured_result() -> None:
    plain, fair = measure(Load())
    mice, seats = sentences(Load(), plain, fair)
    assert f"{plain.mice.p99:.0f} ms without fairness, and {fair.mice.p99:.0f} ms with apf_middleware" in mice
    assert f"{plain.goodput:.1f} requests a second without and {fair.goodput:.1f} with it" in seats
    mice, _ = sentences(Load(), fair, plain)
    assert f"{fair.mice.p99:.0f} ms without fairness, and {plain.mice.p99:.0f} ms with apf_middleware" in mice
    assert f"a factor of {fair.mice.p99 / plain.mice.p99:.1f}" in mice


@pytest.mark.parametrize("instant_ms", [0, 1, 30, 200, 5_000])
def test_the_picture_fits_a_terminal_at_any_instant(instant_ms: int) -> None:
    backends = plain_backend(Load()), fair_backend(Load())
    for backend in backends:
        backend.run(instant_ms * MS)
    lines = render(draw(*backends))
    assert len(lines) < 24
    assert max(map(len, lines)) <= WIDTH


def test_the_report_fits_a_terminal() -> None:
    assert max(map(len, render(report(*play(Load()))))) <= WIDTH


def test_the_picture_shows_each_waiting_ticket() -> None:
    plain, fair = play(Load())
    lines = render(draw(plain, fair))
    first = next(number for number, line in enumerate(lines) if "waiting" in line)
    drawn = "".join(line[11:75] for line in lines[first : first + 4]).replace(" ", "")
    waiting = [ticket.flow for queue in plain.queueset.deck for ticket in queue]
    assert drawn == "".join("▒" if flow == "elephant" else flow[-1] for flow in waiting)


@pytest.mark.parametrize(
    ("value", "cells"),
    [(0, "   "), (0.1, "  ▁"), (8, "  █"), (12, " ▄█"), (24, "███"), (99, "███")],
)
def test_bars_start_at_the_bottom_line(value: float, cells: str) -> None:
    assert "".join(bar_cells(value, 24, 3)) == cells


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile([7.0], 0.01) == percentile([7.0], 1) == 7
