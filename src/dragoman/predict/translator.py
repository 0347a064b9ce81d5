"""Load a trained run and translate texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.config import TranslationConfig
from dragoman.errors import DataError, RunError, check_texts
from dragoman.hardware import PRECISIONS
from dragoman.predict.engine import CompiledEngine
from dragoman.predict.flow import TranslationRequest, searched, translated
from dragoman.predict.loading import Pretrained, TranslatorFiles, load_engine
from dragoman.predict.model import TranslationModel, translation_config
from dragoman.predict.protection import Protection
from dragoman.predict.results import Translation
from dragoman.predict.shortlist import Shortlist
from dragoman.predict.threads import finish
from dragoman.runs import Run
from dragoman.text.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from dragoman.model.transformer import Seq2SeqTransformer


class Translator(TranslationModel, Pretrained):
    """Text in, text out."""

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        device: str = "auto",
        precision: str = "auto",
    ) -> Translator:
        """Load the translator in the folder `path`, or an ensemble of several, with the first's settings.

        `device` is "cpu", "cuda", "cuda:1", or "auto": the first GPU, or the CPU where there is none.
        `precision` is "fp32", "bf16", "int8" (of the search's products; the rest is fp32), or "auto", the one
        of the first two that the processor is best at.

        RunError: no run is there, training has not yet written weights, or a file is damaged; runs have not
        the same vocabularies. ConfigError: there is no such device, or it has not this precision.
        """
        runs = [Run.open(p) for p in ([path] if isinstance(path, (str, Path)) else path)]
        if not runs:
            raise RunError("an ensemble of no runs; give the folder of one at least")
        configs = [translation_config(run) for run in runs]
        tokenizers = TokenizerPair.load(runs[0].tokenizer_folder)
        files = []
        for run, config in zip(runs, configs, strict=True):
            pair = tokenizers if run is runs[0] else TokenizerPair.load(run.tokenizer_folder)
            _check_vocabularies(tokenizers, pair, runs[0], run)
            files.append(TranslatorFiles(run, config, pair))
        shortlist = Shortlist.load(runs[0].path, tokenizers)
        engine = load_engine(files, device=device, precision=precision, shortlist=shortlist)

        def networks() -> Sequence[Seq2SeqTransformer]:
            if not isinstance(engine, CompiledEngine):
                return engine.models
            used = next((name for name, type_ in PRECISIONS.items() if type_ == engine.precision), "fp32")
            return [each.network("cpu", used) for each in files]

        return cls(engine, tokenizers, configs[0], networks=networks)

    @classmethod
    def of(
        cls,
        models: Sequence[Seq2SeqTransformer],
        tokenizers: TokenizerPair,
        config: TranslationConfig,
    ) -> Translator:
        """Return the translator of models in PyTorch as they are now, ready for decoding.

        Several with the same vocabularies are an ensemble: the mean of their probabilities is searched.
        """
        from dragoman.predict.torch_engine import engine_of

        models = [model.eval() for model in models]
        return cls(engine_of(*models), tokenizers, config, networks=lambda: models)

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
        if isinstance(texts, str):
            raise DataError("translate takes a list of sentences; for a single one write translate([text])")
        if not isinstance(first_number, int) or first_number < 0:
            raise DataError(f"first_number = {first_number!r}: is not a whole number from 0 on")
        model = self if to is None and len(self.directions) == 1 else self.towards(to)
        search = model.config.search.changed(settings, where="translate")
        check_texts(texts, what="sentence", first_number=first_number)
        flow = searched(model, texts, search, prefixes=prefixes, required=required, first_number=first_number)
        translations = finish(flow, progress)
        if progress is not None and any(translation.parts for translation in translations):
            progress(len(texts))
        return translations


def translate_protected(
    translator: TranslationModel, texts: Sequence[str], protection: Protection
) -> list[Translation]:
    """Translate each text and keep its protected spans, as `flow.translated` says."""
    return finish(translated(translator, texts, TranslationRequest(protection=protection)))


def _check_vocabularies(first: TokenizerPair, other: TokenizerPair, first_run: Run, run: Run) -> None:
    """RunError: ids do not mean the same in both."""
    for side in ("src", "tgt"):
        if getattr(first, side).fingerprint != getattr(other, side).fingerprint:
            language = "source" if side == "src" else "target"
            raise RunError(
                f"{run.path}: its {language} vocabulary is not that of {first_run.path}, so that they cannot "
                "vote; train them on one corpus with one [tokenizer], or with training.start_from the first"
            )
