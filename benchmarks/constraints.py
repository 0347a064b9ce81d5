"""What required phrases cost: how many are satisfied, BLEU, and time, with them and without.

    python benchmarks/constraints.py RUN --limit 200

For each validation sentence of the run one word of the reference, of more than three letters, is drawn and
required. All sentences are translated without and with it, by beams of several sizes. BLEU rises, for the
word is taken from the reference; "placed" is its BLEU over that of the same translations in which the word,
where it is missing, was put behind the last word: what it brings that the search finds its place. Time is
of the processor, which what else runs on the machine changes little.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Sequence

import torch

from dragoman.data.records import Pair
from dragoman.metrics.translation import bleu
from dragoman.predict.translator import Translator
from dragoman.tasks.translation.evaluation import read_pairs, split_of

MIN_LETTERS = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="the folder of a run")
    parser.add_argument("--limit", type=int, default=0, help="number of sentences, drawn at random; 0 = all")
    parser.add_argument("--beam-sizes", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--seed", type=int, default=0, help="of the sentences and words that are drawn")
    arguments = parser.parse_args()
    translator = Translator.load(arguments.run, precision=arguments.precision)
    pairs, words = examples(translator, limit=arguments.limit, rng=random.Random(arguments.seed))
    print(
        f"{len(pairs)} sentences, each with one required word · {arguments.precision} · "
        f"{torch.get_num_threads()} threads, PyTorch {torch.__version__}\n\n"
        f"{'beam':>4}{'satisfied':>22}{'BLEU':>26}{'CPU seconds':>18}{'ratio':>7}\n"
        f"{'':4}{'without':>11}{'with':>11}{'without':>9}{'with':>8}{'placed':>9}{'without':>10}{'with':>8}"
    )
    for beam_size in arguments.beam_sizes:
        print(measure(translator, pairs, words, beam_size=beam_size), flush=True)


def examples(translator: Translator, *, limit: int, rng: random.Random) -> tuple[list[Pair], list[str]]:
    """Return validation pairs and a word of each reference; pairs without a long enough word are skipped."""
    every = [pair for _, corpus in split_of(translator.config, "valid") for pair in read_pairs(corpus)]
    pairs = [pair for pair in every if long_words(pair.tgt)]
    if limit:
        pairs = rng.sample(pairs, min(limit, len(pairs)))
    return pairs, [rng.choice(long_words(pair.tgt)) for pair in pairs]


def long_words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text) if len(word) >= MIN_LETTERS and word.isalpha()]


def measure(translator: Translator, pairs: Sequence[Pair], words: Sequence[str], *, beam_size: int) -> str:
    """Return a row of the table."""
    sources, references = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
    translator.translate(sources[:8], beam_size=beam_size, required=[[word] for word in words[:8]])
    start = time.process_time()
    plain = [t.text for t in translator.translate(sources, beam_size=beam_size)]
    between = time.process_time()
    required = [[word] for word in words]
    constrained = [t.text for t in translator.translate(sources, beam_size=beam_size, required=required)]
    end = time.process_time()
    appended = [
        text if holds(text, word) else put_behind(text, word) for text, word in zip(plain, words, strict=True)
    ]
    tgt_lang = translator.config.data.tgt_lang
    scores = [
        bleu(texts, references, tgt_lang=tgt_lang, n_bootstrap=0).value
        for texts in (plain, constrained, appended)
    ]
    shares = [share_satisfied(texts, words) for texts in (plain, constrained)]
    seconds = between - start, end - between
    return (
        f"{beam_size:4}{shares[0]:11.1%}{shares[1]:11.1%}{scores[0]:9.2f}{scores[1]:8.2f}"
        f"{scores[1] - scores[2]:+9.2f}{seconds[0]:10.1f}{seconds[1]:8.1f}{seconds[1] / seconds[0]:7.2f}"
    )


def put_behind(text: str, word: str) -> str:
    """`text` with `word` behind its last word, before its last punctuation."""
    end = len(text.rstrip(".!?"))
    return f"{text[:end]} {word}{text[end:]}"


def holds(text: str, word: str) -> bool:
    return word in re.findall(r"\w+", text)


def share_satisfied(texts: Sequence[str], words: Sequence[str]) -> float:
    """Of the translations, those that hold their word as a whole."""
    return sum(map(holds, texts, words)) / len(texts)


if __name__ == "__main__":
    main()
