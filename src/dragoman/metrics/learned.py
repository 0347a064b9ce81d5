"""COMET and BERTScore: scores by pretrained models, computed by their own packages in a process beside.

The process (model_scores.py) may run in another Python, whose packages need not go with those of this one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sacrebleu.metrics.base as sacrebleu_base

from dragoman.errors import PACKAGES, ConfigError, require
from dragoman.metrics.score import SEED, Score
from dragoman.metrics.translation import bootstrap_seed, check_sentences

WORKER = Path(__file__).with_name("model_scores.py")
ENVIRONMENT = {
    "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1",  # a checkpoint cannot run code, whatever a package says
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "PYTHONWARNINGS": "ignore",
}


class Kind(NamedTuple):
    """A metric that has a package of its own."""

    title: str
    module: str
    install: str
    """What pip installs, in an environment without Dragoman."""


KINDS = {
    "comet": Kind("COMET", "comet", "unbabel-comet 'setuptools<81'"),
    "bertscore": Kind("BERTScore", "bert_score", "bert-score"),
}


@dataclass(frozen=True)
class SentenceScores:
    """A score that is the mean of its sentences' scores."""

    name: str
    """COMET or BERTScore; with the model, unless it is the package's default."""
    values: tuple[float, ...]
    """One for each sentence, times 100."""
    facts: Mapping[str, str]
    """What the values depend on; the parts of the signature."""

    def part(self, indices: Sequence[int]) -> SentenceScores:
        """Return the scores of the sentences at `indices`."""
        return SentenceScores(self.name, tuple(self.values[i] for i in indices), self.facts)

    def score(self, *, n_bootstrap: int = 1000) -> Score:
        """Return the mean, with sacreBLEU's bootstrap interval."""
        metric = MeanMetric(self.name, self.facts)
        with bootstrap_seed(SEED):
            result = metric.corpus_score(self.texts(), [[""] * len(self.values)], n_bootstrap=n_bootstrap)
        mean, half = result._mean, result._ci
        interval = (mean - half, mean + half) if n_bootstrap > 1 else None
        return Score(self.name, float(result.score), metric.get_signature().format(), interval)

    def texts(self) -> list[str]:
        """Return the values as `MeanMetric` reads them."""
        return list(map(repr, self.values))


class _Signature(sacrebleu_base.Signature):
    def __init__(self, arguments: dict[str, Any]) -> None:
        facts = arguments["facts"]
        super().__init__({**arguments, "num_refs": facts.get("nrefs", 1)})
        self.info.update(facts)  # the version, too: that of the package


class MeanMetric(sacrebleu_base.Metric):
    """The mean of numbers, as a metric that sacreBLEU can resample. A hypothesis is a number."""

    _SIGNATURE_TYPE: Any = _Signature

    def __init__(self, name: str, facts: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.name, self.facts = name, dict(facts)

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> list[list[float]]:
        return [[float(number), 1.0] for number in hypotheses]

    def _aggregate_and_compute(self, stats: Any) -> sacrebleu_base.Score:
        return self._compute_score_from_stats(np.asarray(stats, dtype=np.float64).sum(0))

    def _compute_score_from_stats(self, stats: npt.NDArray[np.float64] | list[Any]) -> sacrebleu_base.Score:
        return sacrebleu_base.Score(self.name, float(stats[0] / stats[1]))

    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError

    _extract_reference_info = _compute_segment_statistics = _preprocess_segment  # type: ignore[assignment]


class LearnedMetric:
    """A metric named on the command line, `comet` or `bertscore:MODEL@LAYER`; its process starts when needed.

    `model` is a folder, a checkpoint or a name of the hub; "" is the package's default.
    """

    def __init__(self, spec: str, *, python: str = "", device: str = "auto") -> None:
        """`python` runs the package; "" is this one. ConfigError: there is no such metric."""
        found = re.fullmatch(r"(comet|bertscore)(?::(.+?))?(?:@(\d+))?", spec)
        if found is None or (found[3] and (found[1] == "comet" or not found[2])):
            raise ConfigError(
                f"--metric {spec}: there are comet, comet:MODEL, bertscore, bertscore:MODEL and "
                "bertscore:MODEL@LAYER; MODEL is a folder, or a name of the Hugging Face hub"
            )
        self.spec, self.kind = spec, KINDS[found[1]]
        self._python = python or sys.executable
        model = found[2] or ""
        self._request: dict[str, Any] = {
            "metric": found[1],
            "model": str(Path(model).resolve()) if Path(model).exists() and model else model,
            "layer": int(found[3]) if found[3] else None,
            "device": device,
        }
        self._process: subprocess.Popen[str] | None = None

    def facts(self, language: str) -> dict[str, str]:
        """Load the model for a target language and return what its scores depend on.

        Raises:
            MissingExtraError: the package is not installed.
            ConfigError: the other Python has no such package, or the model cannot be loaded.
        """
        facts = self._ask({"language": language})["facts"]
        return {name: re.sub(r"[|:;\s]+", "_", str(value)) for name, value in facts.items()}

    def name(self, facts: Mapping[str, str]) -> str:
        """Return the name of scores with these facts."""
        return f"{self.kind.title} ({facts['model']})" if self._request["model"] else self.kind.title

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], *, language: str
    ) -> SentenceScores:
        """Score translations into `language`; errors as for `facts`.

        DataError: no sentences, or different numbers of them.
        """
        check_sentences(hypotheses, references)
        facts = self.facts(language)
        texts = {"sources": sources, "hypotheses": hypotheses, "references": references}
        reply = self._ask({"language": language, **{name: list(lines) for name, lines in texts.items()}})
        values = tuple(100 * float(score) for score in reply["scores"])
        assert len(values) == len(hypotheses)
        if not np.isfinite(values).all():
            raise ConfigError(f"--metric {self.spec}: some scores are not numbers; its model is damaged")
        return SentenceScores(self.name(facts), values, facts)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        if self._python == sys.executable:
            require(self.kind.module, extra=self._request["metric"], purpose=f"--metric {self.spec}")
        environment = {k: v for k, v in os.environ.items() if k != "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"}
        try:
            return subprocess.Popen(
                [self._python, str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                env=environment | ENVIRONMENT,
            )
        except OSError as error:
            raise ConfigError(
                f"--metric-python {self._python}: cannot be started ({error.strerror}); name a Python"
            ) from None

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the reply of the process."""
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps({**self._request, **request}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            self.close()
            raise ConfigError(
                f"--metric {self.spec}: its process ended with exit code {code}; see the lines above, and "
                "whether its model fits into memory"
            )
        reply: dict[str, Any] = json.loads(line)
        if "missing" in reply:
            raise ConfigError(
                f"{self._python}: has no package {PACKAGES[self.kind.module]}; "
                f"{self._python} -m pip install {self.kind.install}"
            )
        if "error" in reply:
            local = Path(self._request["model"]).exists() and self._request["model"]
            hint = "check the folder" if local else "without network, name a folder with the model"
            raise ConfigError(f"--metric {self.spec}: cannot be used ({reply['error']}); {hint}")
        return reply
