"""Load a trained run and translate texts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import torch

from dragoman.config import Direction, SearchConfig, TranslationConfig
from dragoman.decoding.hypotheses import Hypothesis
from dragoman.errors import ConfigError, DataError, RunError, check_texts, require
from dragoman.hardware import choose_device, choose_dtype, has_int8
from dragoman.hub import folder_of
from dragoman.model.compiled import can_compile
from dragoman.model.packed import can_quantize
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.notebook import Cell, Shown, table, table_of
from dragoman.predict.engine import Engine, NativeEngine, SearchInput
from dragoman.predict.loading import for_inference, load_translator_model
from dragoman.predict.probe import Probe, choose_stepping
from dragoman.predict.sentences import InputEncoder
from dragoman.predict.shortlist import Shortlist
from dragoman.predict.splitting import gap_between, split_to_fit
from dragoman.predict.threads import map_in_threads
from dragoman.runs import Run
from dragoman.tensors import load_probe
from dragoman.text.casing import in_casing
from dragoman.text.normalisation import without_controls
from dragoman.text.slots import without_slots
from dragoman.text.tokenizer import TokenizerPair

WORTH_A_THREAD = 16
"""Sentences in a batch, at least, before another thread takes some of them."""


class Alternative(NamedTuple):
    """One candidate translation and its score.

    Its log-probability in nats over the length penalty, plus the coverage penalty if there is one.
    """

    text: str
    score: float


class Translation(NamedTuple):
    """The best translation of `source`, and all that were asked for, best first.

    Where `source` is too long for the model, it was translated in `parts`: the k-th of `alternatives` is made
    of the k-th of each, joined, with the mean of their scores.
    """

    source: str
    alternatives: tuple[Alternative, ...]
    """One at least."""
    parts: tuple[Translation, ...] = ()
    """Consecutive pieces of `source`, or of what protection left of it; empty where it was one."""
    ids: tuple[tuple[int, ...], ...] = ()
    """The tokens of each alternative as the search found it, without start and end; of a text in parts, those
    of all parts. Nothing where the alternatives are others than those the search found."""
    through: str = ""
    """The text in a pivot language that was translated in place of `source`; "" where there was none."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        """That of the best translation."""
        return self.alternatives[0].score

    def notebook_row(self) -> dict[str, Cell]:
        """Return the row of a notebook's table."""
        return {"source": self.source, "translation": self.text, "score": f"{self.score:.2f}"}

    def _repr_html_(self) -> str:
        if len(self.alternatives) < 2:
            return table_of([self])
        return table(
            ("score", "translation"),
            [(f"{a.score:.2f}", a.text) for a in self.alternatives],
            caption=self.source,
        )


Translate: TypeAlias = Callable[[Sequence[str]], list[Translation]]
"""Sentences to translations, in order: `Translator.translate`, or a function around it."""


def translation_config(run: Run) -> TranslationConfig:
    """Return the configuration of a run that translates. RunError: it is a classifier."""
    if run.config.task != "translation":
        raise RunError(f"{run.path}: is a classifier; try: dragoman classify {shlex.quote(str(run.path))}")
    return run.config


class Translator:
    """Text in, text out: models with their tokenizers and the search settings of the first one's run."""

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
        self._encoder = self._new_encoder()

    def _new_encoder(self) -> InputEncoder:
        # A run that goes on from one with slots, such as a student, has them in its vocabulary, too.
        slots = self.config.modifiers.slots > 0
        return InputEncoder(self.tokenizers, self.max_positions, self.config.languages[0], slots=slots)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The languages that it translates between; a translator `towards` one has that alone."""
        return self.config.directions

    def towards(self, to: str | None) -> Translator:
        """Return this translator for one direction, with the same model.

        `to` is a target language, "de", or a direction, "en-de"; None is the only target that there is. A
        direction that was not trained is possible (zero-shot) between languages of a model of several.
        ConfigError: there is no such direction, or several targets.
        """
        direction = self.config.direction(to)
        translator = copy(self)
        translator.config = self.config.towards(direction)
        translator.tokenizers = self.tokenizers.towards(direction[1])
        translator._encoder = translator._new_encoder()
        return translator

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        device: str = "auto",
        precision: str = "auto",
        engine: str = "native",
    ) -> Translator:
        """Load the translator in the folder `path`, or an ensemble of several, with the first's settings.

        `device` is "cpu", "cuda", "cuda:1", or "auto": the first GPU, or the CPU where there is none.
        `precision` is "fp32", "bf16", "int8" (of the search's products; the rest is fp32), or "auto", the one
        of the first two that the processor is best at. `engine` is "native", or "ctranslate2", whose
        precisions are "fp32" (also "auto") and "int8": the run is converted into its own directory when first
        loaded so, and compared; "auto" is the CPU for it.

        RunError: no run is there, training has not yet written weights, or a file is damaged; runs have not
        the same vocabularies. ConfigError: the engine is unknown, or has not this precision or no ensembles.
        """
        if engine == "ctranslate2":
            require("ctranslate2", extra="ctranslate2", purpose='engine = "ctranslate2"')
        runs = [Run.open(p) for p in ([path] if isinstance(path, (str, Path)) else path)]
        if not runs:
            raise RunError("an ensemble of no runs; give the folder of one at least")
        target = choose_device("cpu" if (device, engine) == ("auto", "ctranslate2") else device)
        in_fp32 = engine != "native" or precision == "int8"
        dtype = torch.float32 if in_fp32 else choose_dtype(precision, target)
        configs = [translation_config(run) for run in runs]
        tokenizers = TokenizerPair.load(runs[0].tokenizer_folder)
        models = []
        for run, config in zip(runs, configs, strict=True):
            pair = tokenizers if run is runs[0] else TokenizerPair.load(run.tokenizer_folder)
            _check_vocabularies(tokenizers, pair, runs[0], run)
            model = load_translator_model(run, config, pair, device=target)
            models.append(for_inference(model, dtype))
        translator = cls(models[0], tokenizers, configs[0], ensemble=models[1:])
        int8 = (engine, precision) == ("native", "int8")
        if int8:
            check_int8(translator.models)
        native = NativeEngine(
            *translator.models, int8=int8, shortlist=Shortlist.load(runs[0].path, tokenizers)
        )
        for run, model in zip(runs, translator.models, strict=True):
            if probe := Probe.parse(load_probe(run.weights_path)):
                alone = NativeEngine(model) if int8 or len(runs) > 1 else native
                choose_stepping(alone, probe, where=str(run.path))
        translator.engine = native
        if engine != "native":
            translator.engine = _ctranslate2(runs, translator, engine, precision, device=target)
        return translator

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | None = None,
        device: str = "auto",
        precision: str = "auto",
        engine: str = "native",
    ) -> Translator:
        """Return the translator that is on the Hugging Face hub as "user/model", or in a folder of that path.

        `revision` is a branch, a tag or a commit; errors and `token` as `hub.fetch`, all else as `load`.
        """
        folder = folder_of(name, revision=revision, token=token)
        return cls.load(folder, device=device, precision=precision, engine=engine)

    def translate(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        required: Sequence[Sequence[str]] | None = None,
        to: str | None = None,
        first_number: int = 1,
        progress: Callable[[int], None] | None = None,
        **settings: Any,
    ) -> list[Translation]:
        """One translation per text, in order. `settings` are those of [search]; others are the run's own.

        `to` is the target language, or the direction: see `towards`. A model of several needs it.

        A text is one sentence. One without a letter is copied, unless it has a prefix or required phrases;
        one with more tokens than the model accepts is translated in parts (`Translation.parts`).
        `prefixes[i]` is what the translation of text i begins with ("" is nothing), and each phrase of
        `required[i]` stands in it somewhere, as whole words; an `Inflectable` one in any of its forms, and
        all of them in capitals where the text is in capitals. With method="sampling", what is drawn for a
        text follows from `seed` and its number, counted from `first_number`. `progress` is called with the
        number of texts finished.

        ConfigError: a setting is unknown or out of range, or some contradict each other or `required`.
        DataError: a text is no string; `first_number` is negative; what a translation must hold has more
        tokens than the model writes, or a word that is not in the vocabulary, or belongs to a text that must
        be translated in parts; a character alone has more tokens than the model accepts. Messages count from
        `first_number`.
        """
        if to is not None or len(self.directions) > 1:
            return self.towards(to).translate(
                texts, prefixes=prefixes, required=required, first_number=first_number, progress=progress,
                **settings,
            )  # fmt: skip
        search = self._settings(settings, required)
        if isinstance(texts, str):
            raise DataError("translate takes a list of sentences; for a single one write translate([text])")
        if not isinstance(first_number, int) or first_number < 0:
            raise DataError(f"first_number = {first_number!r}: is not a whole number from 0 on")
        check_texts(texts, what="sentence", first_number=first_number)
        sentences = self._encoder.sentences(
            texts, prefixes, required, first_number=first_number, recase=search.recase
        )
        split = self._split(texts, sentences, recase=search.recase)
        filled = [i for i, sentence in enumerate(sentences) if len(sentence.source) > 1 and i not in split]
        by_length = sorted(filled, key=lambda i: len(sentences[i].source), reverse=True)
        translations = Shown(
            Translation(text, (Alternative(without_controls(text) if text.strip() else "", 0.0),), (), ((),))
            for text in texts
        )
        done = len(texts) - len(filled) - len(split)
        n_threads = torch.get_num_threads() if self.model.device.type == "cpu" else 1
        size = min(search.batch_sentences, max(-(-len(by_length) // n_threads), WORTH_A_THREAD))
        batches = [by_length[start : start + size] for start in range(0, len(by_length), size)]
        searches = map_in_threads(
            lambda batch: self._search([sentences[i] for i in batch], search), batches, n_threads=n_threads
        )
        for batch, results in zip(batches, searches, strict=True):
            for i, hypotheses in zip(batch, results, strict=True):
                translations[i] = self._read(texts[i], hypotheses, sentences[i])
            done += len(batch)
            if progress is not None:
                progress(done)
        if split:
            begun: list[str] = []
            every: list[str] = []
            for i, of_text in split.items():
                begun += [prefixes[i] if prefixes else "", *[""] * (len(of_text) - 1)]  # of the first part
                every += of_text
            number = first_number + len(texts)  # none that one of `texts` has
            parts = iter(self.translate(every, prefixes=begun, first_number=number, **settings))
            for i, of_text in split.items():
                translations[i] = self._join(texts[i], tuple(islice(parts, len(of_text))))
            if progress is not None:
                progress(len(texts))
        return translations

    @property
    def max_positions(self) -> int:
        """The longest sentence in tokens, the end token included, that every model accepts."""
        return min(model.config.max_positions for model in self.models)

    def _settings(self, values: Mapping[str, Any], required: Sequence[Sequence[str]] | None) -> SearchConfig:
        """Return the run's settings with those given. ConfigError: as `SearchConfig.changed`."""
        search = self.config.search.changed(values, where="translate")
        if required is not None and any(required):
            if search.method != "beam":
                raise ConfigError('required phrases need method = "beam"; with "sampling" leave them away')
            if search.diversity_groups > 1:
                raise ConfigError("required phrases need one beam; set diversity_groups = 1")
        return search

    def _split(
        self, texts: Sequence[str], sentences: Sequence[SearchInput], *, recase: bool
    ) -> dict[int, list[str]]:
        """Return the parts of each text that is too long for the model.

        DataError: a character alone is, or phrases are required of a text in parts.
        """
        fit = min(self.max_positions, self.config.data.max_length)  # longer ones were never seen in training
        split = {}
        n_tokens = partial(self._encoder.n_tokens, recase=recase)
        for i, sentence in enumerate(sentences):
            if len(sentence.source) > self.max_positions:
                if sentence.required:
                    raise DataError(
                        f"sentence {sentence.number}: has {len(sentence.source)} tokens and the model "
                        f"accepts {self.max_positions}: it comes in parts, for which no phrases can be "
                        "required; split it into sentences"
                    )
                try:
                    split[i] = split_to_fit(texts[i], n_tokens, fit)
                except DataError as error:
                    raise DataError(f"sentence {sentence.number}: {error}") from error
        return split

    def _join(self, source: str, parts: tuple[Translation, ...]) -> Translation:
        """Return the translation of `source` from those of its parts."""
        gaps = [
            gap_between(" " if part.source[-1].isspace() else "", self.config.languages) for part in parts
        ]
        alternatives = []
        for chosen in zip(*(part.alternatives for part in parts), strict=False):
            pieces = ((a.text + gap) for a, gap in zip(chosen, gaps, strict=True) if a.text)
            alternatives.append(Alternative("".join(pieces).strip(), fmean(a.score for a in chosen)))
        rows = zip(*(part.ids for part in parts), strict=False)
        ids = tuple(tuple(chain.from_iterable(chosen)) for chosen in rows)
        return Translation(source, tuple(alternatives), parts, ids)

    def _search(self, sentences: Sequence[SearchInput], search: SearchConfig) -> list[list[Hypothesis]]:
        """Search, and once more for those whose best translation lacks a slot: then with it as a phrase."""
        results = self.engine.search(sentences, search)
        lacking = {
            i: sentence._replace(required=[*sentence.required, *missing])
            for i, sentence in enumerate(sentences)
            if (missing := self._encoder.missing_slots(sentence, results[i][0].ids))
        }
        if lacking and search.method == "beam" and search.diversity_groups == 1 and self.engine.has_phrases:
            again = self.engine.search(list(lacking.values()), search)
            for i, hypotheses in zip(lacking, again, strict=True):
                results[i] = hypotheses
        return results

    def written(self, sentence: SearchInput, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of tokens of a translation: spans and case of `sentence` put back."""
        texts = self.tokenizers.tgt.decode_batch(rows, slots=bool(sentence.spans))
        language = self.config.languages[1]
        return [without_slots(in_casing(sentence.casing, text, language), sentence.spans) for text in texts]

    def _read(self, source: str, hypotheses: list[Hypothesis], sentence: SearchInput) -> Translation:
        texts = self.written(sentence, [h.ids for h in hypotheses])
        alternatives = tuple(Alternative(t, h.score) for t, h in zip(texts, hypotheses, strict=True))
        ids = tuple(tuple(h.ids) for h in hypotheses)
        return Translation(source, alternatives, (), ids)


def check_int8(models: Sequence[Seq2SeqTransformer]) -> None:
    """ConfigError: models or processor are not made for products in int8."""
    if any(model.device.type != "cpu" for model in models):
        raise ConfigError('precision int8: is for processors; use device = "cpu", or precision "auto"')
    if not all(map(multiplies_in_int8, models)):
        raise ConfigError(
            "precision int8: needs compiled searches (dragoman doctor says if there are) or a processor with "
            'VNNI, and a model with norm = "pre", activation = "relu" and kernels = "fast"; use "auto", or '
            'engine = "ctranslate2"'
        )


def multiplies_in_int8(model: Seq2SeqTransformer) -> bool:
    """Whether there are products in int8 for this model here: compiled ones, or oneDNN's."""
    widths = (model.config.d_model, model.config.d_ff)
    return can_quantize(model) and (can_compile(torch.int8, widths) or has_int8())


def _ctranslate2(
    runs: list[Run], translator: Translator, engine: str, precision: str, *, device: torch.device
) -> Engine:
    """Return the engine `engine`, which is not the native one."""
    from dragoman.predict.ctranslate2 import ComputeType, CTranslate2Engine, converted

    if engine != "ctranslate2":
        raise ConfigError(f'engine {engine}: is not an engine; there are "native" and "ctranslate2"')
    types: dict[str, ComputeType] = {"auto": "float32", "fp32": "float32", "int8": "int8"}
    if precision not in types:
        raise ConfigError(f'precision {precision}: CTranslate2 has "fp32" and "int8" here')
    if len(runs) > 1:
        raise ConfigError('an ensemble needs engine = "native"; CTranslate2 searches with one model')
    model, tokenizers = translator.model, translator.tokenizers
    folder = converted(runs[0], model, tokenizers, types[precision])
    return CTranslate2Engine(
        folder,
        tokenizers,
        max_positions=model.config.max_positions,
        workers=torch.get_num_threads() if device.type == "cpu" else 1,
        threads=1,
        device=device,
        source_end=model.config.source_end,
    )


def _check_vocabularies(first: TokenizerPair, other: TokenizerPair, first_run: Run, run: Run) -> None:
    """RunError: ids do not mean the same in both."""
    for side in ("src", "tgt"):
        if getattr(first, side).fingerprint != getattr(other, side).fingerprint:
            language = "source" if side == "src" else "target"
            raise RunError(
                f"{run.path}: its {language} vocabulary is not that of {first_run.path}, so that they cannot "
                "vote; train them on one corpus with one [tokenizer], or with training.start_from the first"
            )
