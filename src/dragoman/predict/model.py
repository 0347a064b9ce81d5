"""What translates sentences: models with one vocabulary, their tokenizers, and how they are searched."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence, Sized
from copy import copy
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from dragoman.config import Direction, TranslationConfig
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.decoding.phrases import ExactPhrase, Phrase
from dragoman.errors import DataError, RunError, check_texts
from dragoman.predict.engine import ModelEngine, SearchInput
from dragoman.predict.inflection import Inflectable, InflectedPhrase, WrittenTokens
from dragoman.predict.results import Alternative, Translation
from dragoman.runs import Run
from dragoman.text.alterations import transformations
from dragoman.text.normalisation import is_wordy, without_controls
from dragoman.text.slots import SLOTS
from dragoman.text.spans import encode_phrase
from dragoman.text.tokenizer import EOS_ID, UNK_ID, Tokenizer, TokenizerPair
from dragoman.text.transformations import Reading, Transformations

if TYPE_CHECKING:
    from typing_extensions import Self

    from dragoman.model.transformer import Seq2SeqTransformer


def translation_config(run: Run) -> TranslationConfig:
    """Return the configuration of a run that translates. RunError: it is a classifier."""
    if run.config.task != "translation":
        raise RunError(f"{run.path}: is a classifier; try: dragoman classify {shlex.quote(str(run.path))}")
    return run.config


class TranslationModel:
    """A model, or an ensemble, of one direction or several, with the first one's search settings."""

    def __init__(
        self,
        engine: ModelEngine,
        tokenizers: TokenizerPair,
        config: TranslationConfig,
        *,
        networks: Callable[[], Sequence[Seq2SeqTransformer]] | None = None,
    ) -> None:
        """`networks` loads the models of `engine` in PyTorch, for who wants to look into them."""
        self.engine = engine
        self._networks = networks
        # A model of one direction may know reserved tokens, too: its vocabulary was that of one of several.
        several = len(config.directions) > 1
        self._turn(config, tokenizers if several else tokenizers.towards(config.languages[1]))

    def _turn(self, config: TranslationConfig, tokenizers: TokenizerPair) -> None:
        self.config, self.tokenizers = config, tokenizers
        # A run that goes on from one with slots, such as a student, has them in its vocabulary, too: but only
        # with this setting has the model learnt that they stand for what is carried over.
        self._has_slots = config.modifiers.slots > 0 and tokenizers.has_slots
        listed = transformations(config.languages, slots=self._has_slots)
        self.transformations = Transformations(listed, tokenizers.src.plain.encode_batch)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The languages that it translates between; a model `towards` one has that alone."""
        return self.config.directions

    @property
    def max_positions(self) -> int:
        """The longest sentence in tokens, the end token included, that every model accepts."""
        return self.engine.longest + 1

    @cached_property
    def models(self) -> Sequence[Seq2SeqTransformer]:
        """The models in PyTorch, ready for decoding: those of the engine, or loaded when first asked for."""
        assert self._networks is not None, "an engine of compiled code, whose models are nowhere else"
        return self._networks()

    @property
    def model(self) -> Seq2SeqTransformer:
        """The first of `models`."""
        return self.models[0]

    def towards(self, to: str | None) -> Self:
        """Return the same for one direction.

        `to` is a target language, "de", or a direction, "en-de"; None is the only target that there is. A
        direction that was not trained is possible (zero-shot) between languages of a model of several.
        ConfigError: there is no such direction, or several targets.
        """
        direction = self.config.direction(to)
        turned = copy(self)
        turned._turn(self.config.towards(direction), self.tokenizers.towards(direction[1]))
        return turned

    def written(self, sentence: SearchInput, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of tokens of a translation: spans and case of `sentence` put back."""
        texts = self.tokenizers.tgt.decode_batch(rows, slots=bool(sentence.spans))
        written = self.transformations.written
        return [written(text, sentence.casing, sentence.spans) for text in texts]

    def read(self, source: str, sentence: SearchInput, hypotheses: Sequence[Hypothesis]) -> Translation:
        """Return what a search for `sentence`, the input of `source`, came to."""
        texts = self.written(sentence, [hypothesis.ids for hypothesis in hypotheses])
        pairs = zip(texts, hypotheses, strict=True)
        alternatives = tuple(Alternative(text, hypothesis.score) for text, hypothesis in pairs)
        return Translation(source, alternatives, (), tuple(tuple(h.ids) for h in hypotheses))

    @cached_property
    def _written(self) -> WrittenTokens:
        """What the tokens of the target write."""
        return WrittenTokens.of(self.tokenizers.tgt)

    def n_tokens(self, text: str, *, recase: bool = False) -> int:
        """Those of `text` as a source, slots and the end token included; with `recase` in either case."""
        read = (self.inputs([text], None, None, first_number=0, recase=r) for r in {False, recase})
        return max(len(sentence.source) for (sentence,) in read)

    def inputs(
        self,
        texts: Sequence[str],
        prefixes: Sequence[str] | None,
        required: Sequence[Sequence[str]] | None,
        *,
        first_number: int,
        recase: bool = False,
    ) -> list[SearchInput]:
        """Return the search's input for each text, including texts that are too long for the model.

        Nothing is read of a text without a letter, unless its translation has a prefix or required phrases.
        Slots stand for what is carried over, unless a required phrase holds it. With `recase`, text in
        capitals or in title case is read in the case that the vocabulary has, unless its translation has a
        prefix.

        DataError: there is not one prefix or list of phrases for each text, or one is more than the model
        can write.
        """
        for name, values in {"prefixes": prefixes, "required": required}.items():
            is_list = isinstance(values, Sized) and not isinstance(values, str)
            if values is not None and not (is_list and len(values) == len(texts)):
                raise DataError(
                    f"{name} must be a list with one entry for each of the {len(texts)} sentences"
                )
        check_texts([] if prefixes is None else prefixes, what="prefix")
        forced = required or [()] * len(texts)
        phrases = [self._phrases(group, first_number + i) for i, group in enumerate(forced)]
        beginnings = prefixes or [""] * len(texts)
        read = [
            self.transformations.read(text, recase=recase and not beginning, phrases=group)
            if beginning or group or is_wordy(text)
            else Reading("")
            for text, beginning, group in zip(texts, beginnings, forced, strict=True)
        ]
        begun = self._begun(beginnings, [one.spans for one in read])
        continuing = self._written.continuing if any(phrases) else frozenset[int]()
        sentences = []
        encoded = self.tokenizers.src.encode_batch([one.text for one in read], slots=self._has_slots)
        rows = zip(encoded, begun, phrases, read, strict=True)
        for number, (ids, prefix, group, one) in enumerate(rows, first_number):
            sentence = SearchInput(
                [*ids, EOS_ID], prefix, group, continuing, number, spans=one.spans, casing=one.casing
            )
            if UNK_ID in prefix:
                raise DataError(
                    f"sentence {number}: its prefix has a word that is not in the model's vocabulary, "
                    "which the model cannot write; leave the word away"
                )
            if sentence.n_needed > self.max_positions - 1:
                raise DataError(
                    f"sentence {number}: its prefix and required phrases have {sentence.n_needed} "
                    f"tokens and the model writes at most {self.max_positions - 1}; give shorter ones"
                )
            sentences.append(sentence)
        return sentences

    @cached_property
    def _slots(self) -> dict[int, int]:
        """The tokens of `SLOTS` in the source, and in the target; nothing without slots."""
        if not self._has_slots:
            return {}
        src, tgt = self.tokenizers.src.pieces(), self.tokenizers.tgt.pieces()
        return {src.index(slot): tgt.index(slot) for slot in SLOTS}

    def _begun(self, prefixes: Sequence[str], spans: Sequence[Sequence[str]]) -> list[list[int]]:
        """Return the tokens of prefixes, with slots for the spans of their sources."""
        if not any(prefixes):
            return [[] for _ in prefixes]
        if self._has_slots:
            slotted = zip(map(without_controls, prefixes), spans, strict=True)
            prefixes = [self.transformations.with_slots(text, some) for text, some in slotted]
        return self.tokenizers.tgt.encode_batch(prefixes, slots=self._has_slots)

    def missing_slots(self, sentence: SearchInput, ids: Sequence[int]) -> list[Phrase]:
        """Return, as phrases, the slots of a sentence, if its translation `ids` lacks one of them."""
        if not sentence.spans:
            return []
        slots = {self._slots[i]: None for i in sentence.source if i in self._slots}
        return [] if slots.keys() <= {*ids} else [ExactPhrase((i,)) for i in slots]

    def _phrases(self, phrases: Sequence[str], number: int) -> list[Phrase]:
        if isinstance(phrases, str) or not isinstance(phrases, Sized):
            raise DataError(f"sentence {number}: required must be a list of phrases, such as [{phrases!r}]")
        check_texts(phrases, what=f"sentence {number}, required phrase")
        encoded: list[Phrase] = []
        for phrase in phrases:
            ids = encode_phrase(self.tokenizers.tgt, phrase)
            if not ids:
                raise DataError(f"sentence {number}: a required phrase is empty; leave it away")
            if UNK_ID in ids:
                raise DataError(
                    f"sentence {number}: the required phrase {phrase!r} has a word that is not in the "
                    "model's vocabulary, which the model cannot write; leave it away"
                )
            exact = ExactPhrase(tuple(ids))
            inflects = isinstance(phrase, Inflectable) and len(ids) < self.max_positions
            encoded.append(self._inflected(phrase, exact) if inflects else exact)
        return encoded

    @cached_property
    def _inflected(self) -> Callable[[str, ExactPhrase], Phrase]:
        """`inflected` for the target; a cache of a method would hold the model when nobody else does."""
        return lru_cache(maxsize=1024)(partial(inflected, self.tokenizers.tgt, self._written))


def inflected(tokenizer: Tokenizer, written: WrittenTokens, phrase: str, exact: ExactPhrase) -> Phrase:
    """Return a phrase that may be inflected.

    It has one form, `exact`, if it cannot be told from what single tokens write: in a script without
    spaces, with tokens of single characters, or with characters that are written as bytes.
    """
    inflectable = InflectedPhrase(tokenizer.normalise(phrase).split(), written)
    return inflectable if inflectable.holds(exact.tokens) else exact
