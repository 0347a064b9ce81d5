"""model.py translates by CTranslate2. It needs ctranslate2 and sentencepiece."""

import json
import re
import sys
from pathlib import Path

import ctranslate2
import sentencepiece
from transformations import REPLACED

folder = sys.argv[1]
source, target = (
    sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{side}.spm") for side in ("source", "target")
)
translator = ctranslate2.Translator(folder)
(vocabulary,) = Path(folder).glob("s*_vocabulary.json")  # shared, or source
numbers = {piece: i for i, piece in enumerate(json.loads(vocabulary.read_text(encoding="utf-8")))}


def ids_of(words):
    """Return the ids of the tokens of each word; 3 is an unknown one."""
    return [[numbers.get(piece, 3) for piece in source.encode(word, out_type=str)] for word in words]


def tokens_of(text):
    """Return the tokens of a text and the end; a leading ">>deu<<" is a token."""
    language, text = re.match("(>>.*?<<)?(.*)", text, re.DOTALL).groups()
    return [*[language] * bool(language), *source.encode(text, out_type=str), "</s>"]


def translate(rows, longest):
    """Return the translation of each row of tokens."""
    results = translator.translate_batch(
        rows, beam_size=4, max_input_length=0, max_decoding_length=min(256, longest - 1)
    )
    return [target.decode(one.hypotheses[0]).translate(REPLACED).strip() for one in results]
