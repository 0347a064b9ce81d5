"""Train subword tokenizers on a sample of the corpus.

Hugging Face's trainers know special tokens only as words to be found in text, and no byte tokens at all.
So they learn pieces, and the vocabulary is put together here: 4 special tokens, 256 byte tokens, pieces.
The special tokens are in the vocabulary but not among the file's `added_tokens`: a user's "</s>" is text.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from dragoman.text.normalisation import META_SPACE, normalise, normalise_lowercase
from dragoman.text.vocabulary import SPECIAL_TOKENS, UNK_ID, sample_of_text

BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
N_FIXED = len(SPECIAL_TOKENS) + len(BYTE_TOKENS)
LOWERCASE = {"type": "Lowercase"}
"""The `normalizer` in the file of a tokenizer that reads and writes lower case only."""

WORD = r"▁?[\p{L}\p{M}]+"
OTHER = r"▁?\p{N}|▁?[^\p{L}\p{M}\p{N}▁]|▁"
"""A word, one digit or one other character, with the space before it. Pieces never cross these borders,
so that "bushes." is "bushes" and "."; nor can text that looks like a special or byte token become one."""

RARE, WORD_END = "\uffff", "\ufffe"
"""While a vocabulary is learnt: characters left to bytes, and a word's end. Unicode never assigns them."""


def learn(
    texts: Iterable[str],
    *,
    kind: Literal["bpe", "unigram"],
    vocab_size: int,
    dropout: float = 0.0,
    lowercase: bool = False,
) -> str:
    """Train a tokenizer and return its JSON: `vocab_size` tokens, or fewer if the texts have fewer pieces.

    BPE is deterministic. The unigram trainer works in a random order, so that ties between equally good
    pieces may be broken differently, as for sentences made from templates. DataError: no text.
    """
    assert vocab_size > N_FIXED + 1, "the configuration asks for 300 or more"
    sample = sample_of_text(texts, normalise_lowercase if lowercase else normalise)
    n_pieces = vocab_size - N_FIXED
    sample = _hide_rare(sample, n_kept=n_pieces // 2)
    tokenizer = _learn_bpe(sample, n_pieces) if kind == "bpe" else _learn_unigram(sample, n_pieces)
    tokenizer.pre_tokenizer = _splitter()
    tokenizer.decoder = _joiner()
    spec = json.loads(tokenizer.to_str())
    spec["normalizer"] = LOWERCASE if lowercase else None
    spec["model"] |= _bpe_model(spec["model"], dropout) if kind == "bpe" else _unigram_model(spec["model"])
    return json.dumps(spec, ensure_ascii=False, separators=(",", ":"))


def check(settings: dict[str, Any]) -> None:
    """ValueError: a tokenizer's JSON says what none says that `learn` wrote.

    The file of a stranger may hold whatever `tokenizers` knows: regular expressions that take for ever,
    templates that add tokens. Only vocabulary, merges, scores and dropout are free.
    """
    model = settings["model"]
    if not isinstance(model, dict) or model.get("type") not in ("BPE", "Unigram"):
        raise ValueError("its model is neither BPE nor unigram")
    plain = tokenizers.Tokenizer(models.BPE())
    plain.pre_tokenizer, plain.decoder = _splitter(), _joiner()
    ours = json.loads(plain.to_str())
    # Read and written by the same version of the package, equal ones look equal.
    theirs = json.loads(
        tokenizers.Tokenizer.from_str(json.dumps({**settings, "model": ours["model"]})).to_str()
    )
    differing = [name for name, value in ours.items() if theirs.get(name) != value]
    if differing:
        raise ValueError(f"its {', '.join(differing)} is not what Dragoman writes")
    vocab = model.get("vocab")
    if isinstance(vocab, dict) and sorted(vocab.values()) != list(range(len(vocab))):
        raise ValueError("its ids are not 0, 1, 2 and so on")


def extend(spec: str, texts: Iterable[str], n_new: int) -> str:
    """Return the tokenizer `spec` with up to `n_new` pieces more, learnt from `texts`. DataError: no text.

    Ids and pieces that are there stay. BPE: the merges that the new text would have made come after the old
    ones, so that they put together what those leave. Unigram: new pieces have the scores of the new text.
    """
    settings = json.loads(spec)
    model, kind = settings["model"], settings["model"]["type"].lower()
    lowercase = settings["normalizer"] is not None
    size = len(model["vocab"])
    learnt = json.loads(learn(texts, kind=kind, vocab_size=size + n_new, lowercase=lowercase))["model"]
    if kind == "unigram":
        existing = {piece for piece, _ in model["vocab"]}
        new = [entry for entry in learnt["vocab"] if entry[0] not in existing]
        model["vocab"] += sorted(new, key=lambda entry: -entry[1])[:n_new]
        return json.dumps(settings, ensure_ascii=False, separators=(",", ":"))
    vocab, merges = model["vocab"], model["merges"]
    for piece in sorted(learnt["vocab"], key=learnt["vocab"].__getitem__):  # first the new characters
        if len(piece) == 1 and piece not in vocab and len(vocab) < size + n_new:
            vocab[piece] = len(vocab)
    for first, second in learnt["merges"]:
        has_both = first in vocab and second in vocab
        if has_both and first + second not in vocab and len(vocab) < size + n_new:
            vocab[first + second] = len(vocab)
            merges.append([first, second])
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":"))


def with_pieces(spec: str, pieces: Sequence[str]) -> str:
    """Return the tokenizer `spec` with more tokens, which no text becomes but the character that is one.

    BPE never merges to the others, and for unigram they lie across the borders of words.
    """
    settings = json.loads(spec)
    vocab = settings["model"]["vocab"]
    for piece in pieces:
        if isinstance(vocab, dict):
            vocab[piece] = len(vocab)
        else:
            vocab.append([piece, min(score for _, score in vocab)])
    return json.dumps(settings, ensure_ascii=False, separators=(",", ":"))


def _hide_rare(texts: list[str], *, n_kept: int) -> list[str]:
    """Return the texts with rare characters replaced: all but the `n_kept` most frequent, and single ones.

    What is replaced is written as bytes: thousands of Chinese characters leave room for whole words.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    frequent = sorted((c for c, n in counts.items() if n > 1), key=lambda c: (-counts[c], c))[:n_kept]
    rare = "".join(sorted(counts.keys() - set(frequent) - {" "}))
    if not rare:
        return texts
    pattern = re.compile(f"[{re.escape(rare)}]+")
    return [pattern.sub(RARE, text) for text in texts]


def _learn_bpe(texts: list[str], n_pieces: int) -> tokenizers.Tokenizer:
    """Return a tokenizer of merged pieces alone. Merges what occurs twice or more."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = _splitter(training=True)
    trainer: Any = trainers.BpeTrainer(
        vocab_size=n_pieces, min_frequency=2, show_progress=False, special_tokens=[]
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _learn_unigram(texts: list[str], n_pieces: int) -> tokenizers.Tokenizer:
    """Return a tokenizer of unigram pieces alone, and the piece WORD_END.

    The trainer takes its first candidates from strings that recur with different neighbours in a list that
    holds each word once. A whole word never recurs there, unless it is part of others: "woman" would become
    "wom" and "an". So each word is added once more with a neighbour, WORD_END. (On English of Multi30k that
    is 14.7 tokens a sentence and not 17.3, with 8000 pieces for both languages.)
    """
    counter = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNK_ID]))
    counter.pre_tokenizer = _splitter(training=True)
    every_word: Any = trainers.WordLevelTrainer(
        vocab_size=1 << 31, min_frequency=2, show_progress=False, special_tokens=[]
    )
    counter.train_from_iterator(texts, every_word)
    words = sorted(word + WORD_END for word in counter.get_vocab() if len(word) > 1)
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = _splitter(training=True)
    trainer: Any = trainers.UnigramTrainer(vocab_size=n_pieces + 1, show_progress=False, special_tokens=[])
    tokenizer.train_from_iterator([*texts, *words], trainer)
    return tokenizer


def _splitter(*, training: bool = False) -> Any:
    """Text into words, with META_SPACE for the space before each."""
    steps: list[Any] = [
        pre_tokenizers.Metaspace(replacement=META_SPACE, prepend_scheme="always", split=False),
        pre_tokenizers.Split(Regex(f"{WORD}|{OTHER}"), behavior="isolated"),
    ]
    if training:
        steps[1:] = [
            pre_tokenizers.Split(RARE, behavior="removed"),
            pre_tokenizers.Split(Regex(f"{WORD}{WORD_END}?|{OTHER}"), behavior="isolated"),
        ]
    return pre_tokenizers.Sequence(steps)


def _joiner() -> Any:
    """Pieces into text: the inverse of `_splitter`. Bytes that are no UTF-8 become U+FFFD."""
    return decoders.Sequence(
        [
            decoders.Replace(META_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )


def _bpe_model(model: dict[str, Any], dropout: float) -> dict[str, Any]:
    """Update the JSON of a BPE model: the vocabulary, and unknown characters become bytes."""
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    vocab = {token: i for i, token in enumerate((*SPECIAL_TOKENS, *BYTE_TOKENS, *pieces))}
    assert len(vocab) == N_FIXED + len(pieces), "a piece looks like a special or byte token"
    unknown = SPECIAL_TOKENS[UNK_ID]
    return {"vocab": vocab, "unk_token": unknown, "byte_fallback": True, "dropout": dropout or None}


def _unigram_model(model: dict[str, Any]) -> dict[str, Any]:
    """Update the JSON of a unigram model: the vocabulary without WORD_END, with log-probabilities.

    The last digits of the trainer's scores change from run to run, and so do the scores of characters that
    it keeps although it has no use for them. They are cut, and levelled.
    """
    scores = dict(model["vocab"])
    ends = min(math.exp(scores.pop(WORD_END, -math.inf)), 0.99)
    useful = [score for piece, score in scores.items() if len(piece) > 1]
    lowest = min(useful or scores.values())
    scores = {piece: round(max(score, lowest) - math.log(1 - ends), 4) for piece, score in scores.items()}
    pieces = sorted(scores.items(), key=lambda piece: (-piece[1], piece[0]))
    fixed = [(token, pieces[-1][1] - 100.0) for token in (*SPECIAL_TOKENS, *BYTE_TOKENS)]
    return {"vocab": [*fixed, *pieces], "unk_id": UNK_ID, "byte_fallback": True}
