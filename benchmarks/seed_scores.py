"""The figures of two other projects, computed on our models: what they measured, and what it is worth.

    python benchmarks/seed_scores.py small-en-zh RUN
    python benchmarks/seed_scores.py multi30k-en-de RUN

small-en-zh (Allenem/transformer): the mean over dev of NLTK's sentence BLEU-4 and BLEU-2 (the latter with
weights 0.75 and 0.25), not smoothed, between the characters of translation and reference. It kept the start
and end tokens of references, so that a perfect translation of 19 characters scores 0.90; --plain omits them.
Its 0.318 is not of unseen text: its loop calls backward() on the dev batches too, and the next update applies
those gradients (recipes/small-en-zh/README.md).

multi30k-en-de (tanjeffreyz/attention-is-all-you-need): the same BLEU-4, but of teacher-forced predictions: at
every position the likeliest next token after the *reference's* tokens so far. No translator works like this,
for it is told every word but the next; the decoded score of the same model stands beside it.

Both need the extra "dev" (NLTK).
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Sequence

import torch
from nltk.translate.bleu_score import sentence_bleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from dragoman.data.batching import pad
from dragoman.data.corpora import open_corpus
from dragoman.data.records import Pair
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID
from measuring import Result, parser_of
from texts import bleu_of, files_of

FILES = {"small-en-zh": ["small-en-zh/dev.tsv.gz"], "multi30k-en-de": files_of("multi30k", "val")}
THEIRS = {"BLEU-4": 0.318, "BLEU-2": 0.484}
WEIGHTS = {"BLEU-4": (0.25, 0.25, 0.25, 0.25), "BLEU-2": (0.75, 0.25)}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("recipe", choices=FILES)
    parser.add_argument("run")
    parser.add_argument("--plain", action="store_true", help="leave BOS and EOS out of the references")
    options = parser.parse_args()
    translator = Translator.load(options.run)
    lang = options.recipe[-2:]
    pairs = list(open_corpus(FILES[options.recipe], src_lang="en", tgt_lang=lang).pairs())
    references = [pair.tgt for pair in pairs]
    with Result("seed_scores", options) as result:
        begun = time.perf_counter()
        decoded = [found.text for found in translator.translate([pair.src for pair in pairs])]
        result.figure(f"seconds to decode {len(pairs)} sentences", time.perf_counter() - begun, ".1f")
        if options.recipe == "small-en-zh":
            ends: tuple[list[str], list[str]] = ([], []) if options.plain else (["BOS"], ["EOS"])
            expected = [[*ends[0], *characters(reference), *ends[1]] for reference in references]
            for name, theirs in THEIRS.items():
                mean = mean_bleu(expected, list(map(characters, decoded)), WEIGHTS[name])
                result.figure(f"mean sentence {name} (Allenem: {theirs})", mean, ".3f")
            result.figure("sacreBLEU", bleu_of(decoded, references, lang), ".1f")
            return
        parts = (pairs[i : i + 100] for i in range(0, len(pairs), 100))
        forced = [text for part in parts for text in teacher_forced(translator, part)]
        columns = {"": "", "mean sentence BLEU (tanjeffreyz: 27.0)": ".1f", "sacreBLEU": ".1f"}
        table = result.table(columns)
        for name, texts in (("teacher-forced", forced), ("decoded", decoded)):
            mean = mean_bleu(list(map(words, references)), list(map(words, texts)), WEIGHTS["BLEU-4"])
            table.add(name, 100 * mean, bleu_of(texts, references, lang))


@torch.inference_mode()
def teacher_forced(translator: Translator, pairs: Sequence[Pair]) -> list[str]:
    """Return the likeliest next token at every position, given the reference before it, as text."""
    model, tokenizers = translator.model, translator.tokenizers
    src = pad([[*ids, EOS_ID] for ids in tokenizers.src.encode_batch([pair.src for pair in pairs])])
    targets = tokenizers.tgt.encode_batch([pair.tgt for pair in pairs])
    logits = model(src, src != PAD_ID, pad([[BOS_ID, *ids] for ids in targets]))  # (B, T, V)
    rows = logits.argmax(-1).tolist()
    return tokenizers.tgt.decode_batch([row[: len(ids)] for row, ids in zip(rows, targets, strict=True)])


def mean_bleu(
    references: Sequence[list[str]], hypotheses: Sequence[list[str]], weights: tuple[float, ...]
) -> float:
    """Return the mean of NLTK's sentence BLEU, unsmoothed: a sentence without a common 4-gram scores ~0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NLTK warns about each such sentence
        return statistics.fmean(
            sentence_bleu([reference], hypothesis, weights=weights)
            for reference, hypothesis in zip(references, hypotheses, strict=True)
        )


def characters(text: str) -> list[str]:
    """Return the characters of a text, without spaces."""
    return [character for character in text if not character.isspace()]


def words(text: str) -> list[str]:
    """Lower-cased words and punctuation."""
    tokenise = Tokenizer13a()  # type: ignore[no-untyped-call]
    return str(tokenise(text.lower())).split()


if __name__ == "__main__":
    main()
