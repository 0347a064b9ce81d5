"""What translates sentences: models with one vocabulary, their tokenizers, and how they are searched."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

from dragoman.config import Direction, TranslationConfig
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.errors import RunError
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.engine import Engine, NativeEngine, SearchInput
from dragoman.predict.results import Alternative, Translation
from dragoman.predict.sentences import InputEncoder
from dragoman.runs import Run
from dragoman.text.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from typing_extensions import Self


def translation_config(run: Run) -> TranslationConfig:
    """Return the configuration of a run that translates. RunError: it is a classifier."""
    if run.config.task != "translation":
        raise RunError(f"{run.path}: is a classifier; try: dragoman classify {shlex.quote(str(run.path))}")
    return run.config


class TranslationModel:
    """A model, or an ensemble, of one direction or several, with the first one's search settings."""

    def __init__(
        self,
        model: Seq2SeqTransformer,
        tokenizers: TokenizerPair,
        config: TranslationConfig,
        *,
        ensemble: Sequence[Seq2SeqTransformer] = (),
    ) -> None:
        """Take `model` as it is; `for_inference` makes it one whose weights need no casting.

        `ensemble` are more models with the same vocabularies: the mean of all probabilities is searched.
        """
        self.model = model.eval()
        self.models = (self.model, *(other.eval() for other in ensemble))
        self.engine: Engine = NativeEngine(*self.models)
        # A model of one direction may know reserved tokens, too: its vocabulary was that of one of several.
        self.tokenizers = (
            tokenizers if len(config.directions) > 1 else tokenizers.towards(config.languages[1])
        )
        self.config = config
        self.encoder = self._new_encoder()

    def _new_encoder(self) -> InputEncoder:
        # A run that goes on from one with slots, such as a student, has them in its vocabulary, too.
        slots = self.config.modifiers.slots > 0
        return InputEncoder(self.tokenizers, self.max_positions, self.config.languages, slots=slots)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The languages that it translates between; a model `towards` one has that alone."""
        return self.config.directions

    @property
    def max_positions(self) -> int:
        """The longest sentence in tokens, the end token included, that every model accepts."""
        return min(model.config.max_positions for model in self.models)

    def towards(self, to: str | None) -> Self:
        """Return the same for one direction.

        `to` is a target language, "de", or a direction, "en-de"; None is the only target that there is. A
        direction that was not trained is possible (zero-shot) between languages of a model of several.
        ConfigError: there is no such direction, or several targets.
        """
        direction = self.config.direction(to)
        turned = copy(self)
        turned.config = self.config.towards(direction)
        turned.tokenizers = self.tokenizers.towards(direction[1])
        turned.encoder = turned._new_encoder()
        return turned

    def written(self, sentence: SearchInput, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of tokens of a translation: spans and case of `sentence` put back."""
        texts = self.tokenizers.tgt.decode_batch(rows, slots=bool(sentence.spans))
        written = self.encoder.transformations.written
        return [written(text, sentence.casing, sentence.spans) for text in texts]

    def read(self, source: str, sentence: SearchInput, hypotheses: Sequence[Hypothesis]) -> Translation:
        """Return what a search for `sentence`, the input of `source`, came to."""
        texts = self.written(sentence, [hypothesis.ids for hypothesis in hypotheses])
        pairs = zip(texts, hypotheses, strict=True)
        alternatives = tuple(Alternative(text, hypothesis.score) for text, hypothesis in pairs)
        return Translation(source, alternatives, (), tuple(tuple(h.ids) for h in hypotheses))
