"""Packages of Argos Translate, which LibreTranslate installs, too: model, tokenizer and metadata."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.config import TranslationConfig
from dragoman.errors import ConfigError, RunError
from dragoman.interop.ctranslate2 import CTranslate2Engine, import_ctranslate2
from dragoman.interop.sentencepieces import sentencepiece_model
from dragoman.model.layers import sinusoids
from dragoman.model.transformer import Seq2SeqTransformer
from dragoman.predict.engine import SearchInput
from dragoman.predict.translator import Translator
from dragoman.text.foreign import sentencepiece_processor
from dragoman.text.languages import libretranslate_code, name_of
from dragoman.text.normalisation import META_SPACE, normalise
from dragoman.text.vocabulary import EOS_ID, UNKNOWN

MODEL, TOKENIZER = "model", "sentencepiece.model"
VERSION = "1.0"
LONGEST = 1024
"""Tokens of a sentence that Argos Translate gives to a model."""
MOST = 100
"""Tokens of a translation by which a package is compared."""
ALIKE = "greedy, text to text by the package"
SHARE = 0.99
"""Share of the sentences, at least, that a package reads and writes as the run does."""

README = """Install a package by the package manager of Argos Translate: in its desktop program, or

```python
from argostranslate import package
package.install_from_path("NAME.argosmodel")
```

LibreTranslate takes it from there after a restart. Argos Translate finds the sentences of a text with a model
that it downloads once, when it first needs one of the language."""


def check_argos(config: TranslationConfig) -> None:
    """ConfigError: the run needs what Argos Translate does not have."""
    if config.modifiers.slots > 0:
        raise ConfigError(
            "--to argos: Argos Translate cannot carry numbers and addresses over in slots (modifiers.slots), "
            "as this run does; export it --to ctranslate2"
        )


def lengthen(model: Seq2SeqTransformer) -> None:
    """Give a model with computed positions as many as Argos Translate may ask for."""
    if model.config.positions == "sinusoidal":
        table = sinusoids(max(model.config.max_positions, LONGEST + 1), model.config.d_model)
        model.src_embedding.positions = model.tgt_embedding.positions = table


def write_packages(
    config: TranslationConfig, target: str, translator: Translator, tokenizer: Path, folder: Path
) -> Path:
    """Write a package into `folder` for each source language; the CTranslate2 model is in its MODEL.

    `translator` is for `target`, `tokenizer` the file of its source. Return the last. ConfigError: the
    tokenizer has no form that Argos Translate reads.
    """
    try:
        pieces = sentencepiece_model(tokenizer, translator.tokenizers.src)
    except ConfigError as error:
        raise ConfigError(
            f"--to argos: {error}, which Argos Translate reads; export it --to ctranslate2"
        ) from error
    for src in (src for src, tgt in config.directions if tgt == target):
        codes = [libretranslate_code(code) for code in (src, target)]
        name = f"translate-{'_'.join(codes)}-{VERSION.replace('.', '_')}"
        metadata = {
            "package_version": VERSION, "argos_version": "1.9", "from_code": codes[0], "to_code": codes[1],
            "from_name": name_of(codes[0]), "to_name": name_of(codes[1]), "type": "translate",
        }  # fmt: skip
        contents: dict[str, str | bytes] = {
            "metadata.json": json.dumps(metadata, indent=2, ensure_ascii=False),
            "README.md": f"# {config.name}: {config.subject}\n\nWritten by Dragoman.\n",
            TOKENIZER: pieces,
            f"{MODEL}/config.json": _model_config(folder / MODEL, translator),
        }
        for file in sorted((folder / MODEL).iterdir()):
            contents.setdefault(f"{MODEL}/{file.name}", file.read_bytes())
        path = folder / f"{name}.argosmodel"
        with zipfile.ZipFile(path, "w") as package:
            for file_name, content in contents.items():
                entry = zipfile.ZipInfo(f"{name}/{file_name}")  # without a time: equal files, equal bytes
                entry.external_attr = 0o644 << 16
                package.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


def _model_config(folder: Path, translator: Translator) -> str:
    """Return CTranslate2's settings with the tokens that Argos Translate does not add: end and target."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_bytes())
    config["add_source_eos"] = translator.config.model.source_end
    if before := [*translator.tokenizers.src.before.values()]:
        (mark,) = (translator.tokenizers.src.pieces()[i] for i in before)
        config |= {"add_source_bos": True, "bos_token": mark}
    return json.dumps(config, indent=2, ensure_ascii=False)


def check_package(
    path: Path, translator: Translator, engine: CTranslate2Engine, texts: Sequence[str]
) -> float:
    """Return the share of `texts` for which the package gives what `engine` gives, both greedily.

    That is the same tokens, and the same text where their bytes are UTF-8. RunError: it is less than SHARE.
    """
    tokenizers, longest = translator.tokenizers, min(MOST, translator.max_positions - 1)
    sentences = [SearchInput([*ids, EOS_ID]) for ids in tokenizers.src.encode_batch(texts)]
    pieces, n_same = tokenizers.tgt.pieces(), 0
    with tempfile.TemporaryDirectory() as folder:  # the files of the package alone
        with zipfile.ZipFile(path) as package:
            package.extractall(folder)
        unpacked = Path(folder) / path.stem
        processor = sentencepiece_processor((unpacked / TOKENIZER).read_bytes())
        model = import_ctranslate2().Translator(str(unpacked / MODEL))
        results = model.translate_batch(
            [processor.EncodeAsPieces(text) for text in texts], beam_size=1, max_decoding_length=longest
        )
    for best, result in zip(engine.greedy(sentences, longest), results, strict=True):
        tokens = result.hypotheses[0]  # which Argos Translate writes so
        text = str(processor.DecodePieces(tokens)).replace(META_SPACE, " ").replace("_", " ")
        expected = tokenizers.tgt.decode(best).replace("_", " ")
        alike = UNKNOWN in expected or normalise(expected) == normalise(text)
        n_same += alike and [pieces[i] for i in best] == tokens
    if not n_same / len(texts) >= SHARE:
        raise RunError(
            f"{path.name}: sentencepiece reads or writes {len(texts) - n_same} of {len(texts)} sentences "
            "otherwise than the run; nothing was written; export it --to ctranslate2"
        )
    return n_same / len(texts)
