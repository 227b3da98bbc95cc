"""Where the results of the real Kubernetes code are: ``../shared/golden``, or the folder that APF_GOLDEN names."""

import os
from pathlib import Path
from typing import Final

import pytest

__all__ = ["GOLDEN", "golden_files", "needs_golden"]

GOLDEN: Final = Path(os.environ.get("APF_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))

needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(),
    reason=f"the folder of golden data is missing: {GOLDEN} (APF_GOLDEN names another one)",
)


def golden_files(pattern: str) -> list[Path]:
    """Return the files in the folder that match; none when it is missing."""
    return sorted(GOLDEN.glob(pattern))
