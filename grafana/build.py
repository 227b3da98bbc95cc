"""The files for Grafana and Prometheus, as they stand beside this one or with another prefix.

    python -m grafana.build                                             # dashboard.json, after a change of the panels
    python -m grafana.build --prefix apiserver_flowcontrol --to FOLDER  # for metrics.prefix: apiserver_flowcontrol

Rules are written by hand, with the prefix ``apf``; names of metrics are replaced, also in names of recorded series.
"""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from grafana.board import dashboard

__all__ = ["HERE", "PREFIX", "RULES", "main", "render", "with_prefix"]

HERE: Final = Path(__file__).parent
PREFIX: Final = "apf"
RULES: Final = ("recording.rules.yaml", "alerts.rules.yaml")

_NAME: Final = re.compile(rf"\b{PREFIX}_(?!middleware)(?=[a-z])")
_LEGAL: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def with_prefix(text: str, prefix: str) -> str:
    """``text`` about metrics of another prefix; file names, job names and the like stay."""
    return _NAME.sub(f"{prefix}_", text)


def render(prefix: str = PREFIX) -> dict[str, str]:
    """Return the files by name."""
    board = json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
    if prefix != PREFIX:  # both can stand in one Grafana
        board = board.replace(f'"uid": "{PREFIX}"', f'"uid": "{prefix}"')
    files = {"dashboard.json": board, **{name: (HERE / name).read_text() for name in RULES}}
    return {name: with_prefix(text, prefix) for name, text in files.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m grafana.build", description=__doc__.partition("\n")[0])
    parser.add_argument("--prefix", default=PREFIX, help="what metrics.prefix is (default: %(default)s)")
    parser.add_argument("--to", type=Path, default=HERE, metavar="FOLDER", help="where to (default: beside the script)")
    options = parser.parse_args(arguments)
    if not _LEGAL.fullmatch(options.prefix):
        parser.error(f"--prefix is {options.prefix!r}: letters, digits and _, no digit first, as in metrics.prefix")
    if options.prefix != PREFIX and options.to.resolve() == HERE:
        parser.error(f"--prefix is {options.prefix!r}: say with --to where its files go; those here are for {PREFIX!r}")
    options.to.mkdir(parents=True, exist_ok=True)
    for name, text in render(options.prefix).items():
        (options.to / name).write_text(text)


if __name__ == "__main__":
    main()
