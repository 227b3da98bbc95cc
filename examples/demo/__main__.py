"""Ctrl-C ends the demonstration cleanly, also while it is still being imported."""

import sys

INTERRUPTED = 130  # 128 and SIGINT's number, as shells have it

try:
    from examples.demo.show import main

    main()
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)
