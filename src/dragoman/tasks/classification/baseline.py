"""A baseline for classifiers: logistic regression on TF-IDF of words and word pairs (scikit-learn).

It takes seconds, and on long texts it is better than many a network. So it is trained on the same texts as
the classifier and scored on the same test, and its score stands beside the classifier's.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from dragoman.data.records import Labelled, labels_of
from dragoman.errors import require

NAME = "TF-IDF + logistic regression"

CJK = "\u3040-\u30ff\u3400-\u9fff"
TOKEN = rf"[{CJK}]|(?:(?![{CJK}])\w)+(?:'(?:(?![{CJK}])\w)+)*|[^\w\s]"
"""A word with its inner apostrophes, a Chinese or Japanese character, or another sign."""

INVERSE_STRENGTH = 10.0
"""scikit-learn's C. Of 3, 10 and 30 on IMDB, 10 and 30 are alike and better than 3."""

MANY_TEXTS = 5000
"""Minimum number of training texts from which n-grams of a single text are dropped."""

SETTINGS = f"words:1-2|sublinear:yes|C:{INVERSE_STRENGTH:g}"
"""What is the same for every corpus, as it stands in signatures."""


@dataclass(frozen=True)
class Baseline:
    """TF-IDF of 1- and 2-grams of lower-cased words, sublinear, and a regularised logistic regression."""

    vectorizer: Any
    regression: Any
    n_texts: int
    labels: Sequence[str]
    """Where a text has several: each has a regression of its own."""
    balanced: bool

    @classmethod
    def train(cls, examples: Iterable[Labelled], *, balanced: bool = False, separator: str = "") -> Baseline:
        """Train the baseline on `examples`; `balanced` gives rare labels the weight of frequent ones.

        With a `separator` between the labels of a text: a regression for each label, against all others.

        The same examples give the same baseline. MissingExtraError: scikit-learn is not installed.
        """
        require("sklearn", extra="baseline", purpose=f"the baseline ({NAME})")
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        texts, cells = zip(*examples, strict=True)
        vectorizer = TfidfVectorizer(
            token_pattern=TOKEN,
            ngram_range=(1, 2),
            sublinear_tf=True,
            min_df=2 if len(texts) >= MANY_TEXTS else 1,
            dtype=np.float32,
        )
        regression = LogisticRegression(
            C=INVERSE_STRENGTH, max_iter=1000, class_weight="balanced" if balanced else None
        )
        names: list[str] = []
        labels: Any = cells
        if separator:
            from sklearn.multiclass import OneVsRestClassifier

            several = [labels_of(cell, separator) for cell in cells]
            names = sorted({label for row in several for label in row})
            labels = np.array([[name in row for name in names] for row in several], dtype=np.int64)
            regression = OneVsRestClassifier(regression)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", message="Label .* is present in all training examples")
            regression.fit(vectorizer.fit_transform(texts), labels)
        return cls(vectorizer, regression, len(texts), names, balanced)

    def predict(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the labels of each text: one, or those whose probability is above 0.5."""
        predicted = self.regression.predict(self.vectorizer.transform(texts))
        if not self.labels:
            return [(str(label),) for label in predicted]
        return [tuple(self.labels[i] for i in np.flatnonzero(row).tolist()) for row in predicted]

    @property
    def signature(self) -> str:
        """Every choice that its predictions depend on beside the texts."""
        balanced = "yes" if self.balanced else "no"
        min_df = self.vectorizer.min_df
        several = "|labels:one-vs-rest|threshold:0.5" if self.labels else ""
        library = f"scikit-learn:{version('scikit-learn')}"
        return f"{SETTINGS}|min_df:{min_df}|balanced:{balanced}{several}|{library}"
