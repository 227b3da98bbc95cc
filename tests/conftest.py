"""Settings for all tests.

In CI hypothesis draws the same examples each time, so that a failure there is the fault of the change.
"""

import os

from hypothesis import HealthCheck, settings

from tests.support.examples import FACTOR

settings.register_profile(
    "local",
    deadline=None,
    max_examples=round(50 * FACTOR),
    suppress_health_check=[HealthCheck.too_slow],  # on a busy machine everything is slow
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
