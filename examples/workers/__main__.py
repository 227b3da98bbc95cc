"""Two workers of uvicorn, with an empty directory through which they share their metrics.

What `PROMETHEUS_MULTIPROC_DIR=… uvicorn examples.workers.app:app --workers 2` does in a shell, and the directory is
removed afterwards. uvicorn's variables count (UVICORN_PORT), and its options may be added.
"""

import os
import sys
import tempfile

import uvicorn


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="apf-metrics-") as directory:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory  # before the workers start, who inherit it
        uvicorn.main(["examples.workers.app:app", "--workers", "2", *sys.argv[1:]])


if __name__ == "__main__":
    main()
