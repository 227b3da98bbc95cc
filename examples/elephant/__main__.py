"""Ctrl-C ends the show cleanly, also while it is still being imported."""

import sys

INTERRUPTED = 130  # 128 and SIGINT's number, as shells have it

try:
    from examples.elephant.show import main

    main()
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)
