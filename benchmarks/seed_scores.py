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

import argparse
import statistics
import time
import warnings
from collections.abc import Iterable, Sequence

import torch
from nltk.translate.bleu_score import sentence_bleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from dragoman.data.batching import pad
from dragoman.data.corpora import open_corpus
from dragoman.data.records import Pair
from dragoman.metrics.translation import bleu
from dragoman.predict.translator import Translator
from dragoman.text.tokenizer import BOS_ID, EOS_ID, PAD_ID

BLEU_4, BLEU_2 = (0.25, 0.25, 0.25, 0.25), (0.75, 0.25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe", choices=("small-en-zh", "multi30k-en-de"))
    parser.add_argument("run")
    parser.add_argument("--plain", action="store_true", help="leave BOS and EOS out of the references")
    options = parser.parse_args()
    translator = Translator.load(options.run)
    if options.recipe == "small-en-zh":
        pairs = list(open_corpus(["small-en-zh/dev.tsv.gz"], src_lang="en", tgt_lang="zh").pairs())
        report_small_en_zh(translator, pairs, plain=options.plain)
    else:
        files = ["multi30k/val.en.gz", "multi30k/val.de.gz"]
        report_multi30k(translator, list(open_corpus(files, src_lang="en", tgt_lang="de").pairs()))


def report_small_en_zh(translator: Translator, pairs: Sequence[Pair], *, plain: bool) -> None:
    """Print the project's two means on dev, sacreBLEU beside them, and the time that decoding took."""
    start = time.perf_counter()
    hypotheses = [t.text for t in translator.translate([pair.src for pair in pairs])]
    seconds = time.perf_counter() - start
    ends = ([], []) if plain else (["BOS"], ["EOS"])
    references = [[*ends[0], *characters(pair.tgt), *ends[1]] for pair in pairs]
    found = [characters(text) for text in hypotheses]
    print(f"{len(pairs)} sentences decoded in {seconds:.1f} s")
    print(f"mean sentence BLEU-4 {mean_bleu(references, found, BLEU_4):.3f} (Allenem: 0.318)")
    print(f"mean sentence BLEU-2 {mean_bleu(references, found, BLEU_2):.3f} (Allenem: 0.484)")
    score = bleu(hypotheses, [pair.tgt for pair in pairs], tgt_lang="zh")
    print(f"sacreBLEU {score.value:.1f} ({score.signature})")


def report_multi30k(translator: Translator, pairs: Sequence[Pair]) -> None:
    """Print the teacher-forced figure and the honest one, both on the validation pairs."""
    references = [pair.tgt for pair in pairs]
    forced = [
        text for i in range(0, len(pairs), 100) for text in teacher_forced(translator, pairs[i : i + 100])
    ]
    decoded = [t.text for t in translator.translate([pair.src for pair in pairs])]
    for name, hypotheses in (("teacher-forced", forced), ("decoded", decoded)):
        mean = mean_bleu([words(r) for r in references], [words(h) for h in hypotheses], BLEU_4)
        corpus = bleu(hypotheses, references, tgt_lang="de", n_bootstrap=0).value
        print(f"{name:15} mean sentence BLEU {100 * mean:.1f}, sacreBLEU {corpus:.1f} (tanjeffreyz: 27.0)")


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
    references: Iterable[list[str]], hypotheses: Iterable[list[str]], weights: tuple[float, ...]
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
