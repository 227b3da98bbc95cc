"""What holds for all tests.

In CI hypothesis draws the same examples each time, so that a failure there is the fault of the change.
"""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")
