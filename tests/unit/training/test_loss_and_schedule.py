import math

import pytest

from dragoman.config import TrainingConfig
from dragoman.training.updates.schedule import inverse_sqrt, learning_rate


@pytest.mark.parametrize("step", [1, 10, 3999, 4000, 4001, 100_000])
def test_inverse_sqrt_is_the_paper_divided_by_its_peak(step: int) -> None:
    peak = 1 / math.sqrt(512 * 4000)
    paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)  # equation 3
    assert inverse_sqrt(step, warmup_steps=4000) == pytest.approx(paper / peak)


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "linear", "cosine", "constant"])
def test_every_schedule_rises_to_its_peak_and_never_after(schedule: str) -> None:
    config = TrainingConfig.model_validate(
        {"schedule": schedule, "learning_rate": 0.5, "warmup_steps": 10, "max_steps": 100}
    )
    rates = [learning_rate(step, config) for step in range(1, 101)]
    assert rates[9] == pytest.approx(0.5)
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[-1] == pytest.approx(
        {"inverse_sqrt": 0.5 * math.sqrt(0.1), "constant": 0.5}.get(schedule, 0)
    )


def test_warmup_stable_decay_is_level_and_then_falls_in_a_line_to_zero() -> None:
    config = TrainingConfig(
        schedule="wsd", learning_rate=2.0, max_steps=100, warmup_steps=10, decay_fraction=0.2
    )
    rates = [learning_rate(step, config) for step in range(1, 101)]
    assert rates[4] == pytest.approx(1.0)  # half of the warm-up
    assert rates[9:80] == [2.0] * 71
    assert rates[89] == pytest.approx(1.0)  # half of the decay
    assert rates[99] == 0.0


def test_every_schedule_takes_the_factor_that_the_course_of_a_training_has_set() -> None:
    for schedule in ("inverse_sqrt", "linear", "cosine", "constant", "wsd", "plateau"):
        config = TrainingConfig(schedule=schedule, learning_rate=1.0, max_steps=100, warmup_steps=10)
        lowered = learning_rate(20, config, factor=0.25) / learning_rate(20, config)
        assert lowered == 0.25
