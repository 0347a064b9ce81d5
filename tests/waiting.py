"""How long a test waits for what does not come: long, for only a test that fails waits to the end."""

import time
from collections.abc import Callable

LONGEST = 60.0
"""Seconds. A loaded machine is many times slower than an idle one, and no slower machine is a fault."""


def until(true: Callable[[], object], *, seconds: float = LONGEST) -> None:
    """Wait until `true()` is."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.02)
