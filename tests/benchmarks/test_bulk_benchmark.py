"""benchmarks/bulk.py: the arithmetic of a billion sentences."""

from __future__ import annotations

import bulk as benchmark


def test_costs_follow_from_the_speed_of_a_core() -> None:
    # 3600 x 24 x 100 sentences at 10 a second are 240 core-hours; on 5 cores 2 days; at 0.5 each 120.
    said = benchmark.cost(10.0, 8_640_000.0, 5, 0.5)
    assert "240 core-hours; on 5 cores 2.0 days; 120 at 0.5 a core-hour" in said
