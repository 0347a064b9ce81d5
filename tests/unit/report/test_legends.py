"""A legend covers no point, whatever the values are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dragoman.report import picture
from dragoman.report.curves import Curves, plot_runs
from dragoman.tasks.translation.analysis import FrequencyBucket
from dragoman.tasks.translation.report import plot_f1_by_frequency


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures that were saved."""
    kept, save = [], picture._saved
    monkeypatch.setattr(picture, "_saved", lambda figure, kind: [kept.append(figure), save(figure, kind)][1])
    return kept


def covered(figure: Any) -> int:
    """How many points of lines lie below a legend."""
    figure.canvas.draw()
    legends = [*figure.legends, *filter(None, (axes.get_legend() for axes in figure.axes))]
    assert legends
    boxes = [legend.get_window_extent() for legend in legends]
    return sum(
        box.contains(*axes.transData.transform(point))
        for axes in figure.axes
        for line in axes.get_lines()
        for point in np.column_stack(line.get_data())
        for box in boxes
    )


@pytest.mark.slow
@pytest.mark.parametrize("bleu", [5.0, 30.0])
def test_legends_lie_outside_of_points(bleu: float, figures: list[Any], tmp_path: Path) -> None:
    history = [{"kind": "valid", "step": n, "valid_loss": 3.0, "bleu": bleu / n} for n in range(1, 40)]
    runs = [Curves(f"run {i}", history, 40) for i in range(6)]
    plot_runs(runs, tmp_path / "runs.svg", key="bleu", title="BLEU")
    assert covered(figures[-1]) == 0
    words: Any = SimpleNamespace(recall=bleu, precision=bleu / 2, f1=bleu / 3, n_reference=9, n_hypothesis=9)
    plot_f1_by_frequency([FrequencyBucket(n, n, words) for n in range(9)], tmp_path / "words.svg")
    assert covered(figures[-1]) == 0
