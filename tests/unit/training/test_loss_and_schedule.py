import math

import pytest
import torch
from torch.nn import functional as F

from dragoman.config import TrainingConfig
from dragoman.model.kernels import plain_linear_cross_entropy
from dragoman.training.updates.schedule import inverse_sqrt, learning_rate

C, EPS = 7, 0.1


def logits_and_targets() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, C, generator=generator), torch.randint(0, C, (5,), generator=generator)


def test_label_smoothing_is_divergence_from_the_smoothed_target() -> None:
    """KL(q || p) plus the entropy of q, which no model can change, is the smoothed cross-entropy."""
    logits, targets = logits_and_targets()
    loss, _ = plain_linear_cross_entropy(logits, torch.eye(C), targets, EPS)
    q = torch.full((5, C), EPS / C).scatter_add_(1, targets[:, None], torch.full((5, 1), 1 - EPS))
    divergence = F.kl_div(logits.log_softmax(1), q, reduction="sum")
    entropy = -(q * q.log()).sum()
    assert loss.item() == pytest.approx((divergence + entropy).item(), rel=1e-5)


def test_smoothing_over_the_other_classes_translates_into_ours() -> None:
    """1 - e for the target and e/(C-1) for each other class is our loss with e C/(C-1)."""
    logits, targets = logits_and_targets()
    theirs = torch.full((5, C), EPS / (C - 1)).scatter_(1, targets[:, None], 1 - EPS)
    expected = -(theirs * logits.log_softmax(1)).sum()
    loss, _ = plain_linear_cross_entropy(logits, torch.eye(C), targets, EPS * C / (C - 1))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


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
