"""Train a tiny model with another toolkit's own commands and keep what it writes, for tests of importing.

    PYTHONPATH=src PEERS/bin/python tools/make_foreign_fixtures.py fairseq tests/fixtures/foreign/fairseq-0.12.2

PEERS is an environment of its own, for the toolkits ask for older packages than ours. What was installed in
it on Python 3.11, without what they ask for (`pip install --no-deps`), beside torch 2.13.0:

| toolkit | packages |
|---|---|
| fairseq | fairseq==0.12.2 (built where torch is not importable, which skips its C++ extensions for torch), numpy==1.26.4, hydra-core==1.0.7, omegaconf==2.0.6, antlr4-python3-runtime==4.8, bitarray, cffi, regex, sacrebleu, tqdm, subword-nmt==0.3.8 |
| eole | eole==0.6.4, pyonmttok, torch-optimi, configargparse, six, pyahocorasick, rapidfuzz, fasttext-wheel, waitress, aiohttp, spacy, tensorboard, sentencepiece |
| opennmt | OpenNMT-py==3.5.1, numpy==1.26.4, configargparse, pyonmttok, six, pyahocorasick, rapidfuzz, fasttext-wheel, flask, waitress, spacy, tensorboard, subword-nmt==0.3.8 |
| sockeye | sockeye==3.1.34, numpy==1.26.4, pyyaml, sacrebleu |

Each folder holds the files of the toolkit, 20 sentences (input.en) and its own greedy translations of them
(output.de). The text is that of Dragoman's phrasebook, in lower case, with spaces around punctuation.
"""  # noqa: E501

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dragoman.data import phrasebook

N_TRAIN, N_TEST, N_WORDS = 480, 20, {"en": 100, "de": 115}
STEPS = 1500
CORPORA = {
    "seed": 1, "src_vocab": "vocab.src", "tgt_vocab": "vocab.tgt", "save_data": "data",
    "data": {
        "corpus": {"path_src": "train.en", "path_tgt": "train.de"},
        "valid": {"path_src": "valid.en", "path_tgt": "valid.de"},
    },
}  # fmt: skip
TRAINING = {
    "train_steps": STEPS, "valid_steps": STEPS, "save_checkpoint_steps": STEPS, "batch_type": "tokens",
    "batch_size": 800, "optim": "adam", "learning_rate": 0.01, "num_workers": 0, "bucket_size": 480,
    "label_smoothing": 0.0,
}  # fmt: skip
"""What OpenNMT-py and eole call the same."""
OLD_FAIRSEQ = """
import dataclasses, importlib, sys
import numpy, sacrebleu, torch

# Python 3.11 refuses defaults that have no hash, numpy 1.24 has no numpy.float
def hashable(given=None, /, **options):
    if sys._getframe(1).f_globals["__name__"].split(".")[0] in ("fairseq", "hydra"):
        options.setdefault("unsafe_hash", True)
    return plain(**options) if given is None else plain(given, **options)

plain, dataclasses.dataclass = dataclasses.dataclass, hashable
numpy.float, numpy.int, numpy.bool, numpy.object = float, int, bool, object
importlib.import_module("fairseq_cli." + sys.argv.pop(1)).cli_main()
"""


def pairs() -> list[tuple[str, str]]:
    """Short sentences of the phrasebook in its most frequent words: those to train on, then those to test."""
    every = [
        (re.sub(r"([.,?!])", r" \1", src.lower()), re.sub(r"([.,?!])", r" \1", tgt.lower()))
        for src, tgt in phrasebook.pairs("train", "en", "de")
    ]
    every = [pair for pair in dict.fromkeys(every) if max(len(text.split()) for text in pair) <= 8]
    for side, lang in enumerate(("en", "de")):
        counts = Counter(word for pair in every for word in pair[side].split())
        frequent = {word for word, _ in counts.most_common(N_WORDS[lang])}
        every = [pair for pair in every if frequent.issuperset(pair[side].split())]
    return every[: N_TRAIN + N_TEST]


def write_corpus(folder: Path) -> None:
    """Write train.en, train.de, valid.en, valid.de and input.en."""
    found = pairs()
    assert len(found) == N_TRAIN + N_TEST, len(found)
    parts = {"train": found[:N_TRAIN], "valid": found[:N_TEST], "input": found[N_TRAIN:]}
    for name, part in parts.items():
        for side, lang in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in part)
            (folder / f"{name}.{lang}").write_text(text, encoding="utf-8")
    (folder / "input.de").unlink()


def run(command: str, folder: Path, *, program: Sequence[str] = (), stdin: Path | None = None) -> str:
    """Run a command of a toolkit, preceded by `program`, and return its output."""
    print("+", command, flush=True)
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
    }
    done = subprocess.run(
        [*program, *command.split()],
        check=False,
        cwd=folder,
        input=stdin.read_text(encoding="utf-8") if stdin else None,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
    )
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def write_codes(folder: Path) -> None:
    """Byte-pair codes of both languages, as subword-nmt learns them, and the text that they cut."""
    text = "".join((folder / f"train.{lang}").read_text(encoding="utf-8") for lang in ("en", "de"))
    (folder / "both").write_text(text, encoding="utf-8")
    run("subword-nmt learn-bpe --input both --output bpecodes --symbols 200", folder)
    for name in ("train", "valid"):
        for lang in ("en", "de"):
            cut = run("subword-nmt apply-bpe -c bpecodes", folder, stdin=folder / f"{name}.{lang}")
            (folder / f"{name}.bpe.{lang}").write_text(cut, encoding="utf-8")


def fairseq(folder: Path) -> dict[str, str]:
    """Return the files of a post-norm model with byte-pair codes, by the names they are kept under."""
    write_codes(folder)
    program = (sys.executable, "-c", OLD_FAIRSEQ)
    run(
        "preprocess --source-lang en --target-lang de --trainpref train.bpe --validpref valid.bpe "
        "--destdir data",
        folder,
        program=program,
    )
    run(
        "train data --arch transformer --cpu --save-dir model --no-progress-bar --encoder-embed-dim 8 "
        "--encoder-ffn-embed-dim 16 --encoder-layers 2 --encoder-attention-heads 2 --decoder-embed-dim 8 "
        "--decoder-ffn-embed-dim 16 --decoder-layers 1 --decoder-attention-heads 2 --optimizer adam "
        "--lr 0.01 --share-decoder-input-output-embed --lr-scheduler inverse_sqrt --warmup-updates 50 "
        "--dropout 0.0 "
        f"--max-tokens 800 --max-update {STEPS} --no-epoch-checkpoints --no-last-checkpoints --num-workers 0",
        folder,
        program=program,
    )
    printed = run(
        "interactive data --path model/checkpoint_best.pt --beam 1 --max-len-b 30 --cpu --bpe subword_nmt "
        "--bpe-codes bpecodes --source-lang en --target-lang de",
        folder,
        program=program,
        stdin=folder / "input.en",
    )
    found = re.findall(r"^D-\d+\t[^\t]*\t(.*)$", printed, flags=re.MULTILINE)
    (folder / "output.de").write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    files = ("model/checkpoint_best.pt", "data/dict.en.txt", "data/dict.de.txt", "bpecodes")
    return {file: Path(file).name for file in files}


def opennmt(folder: Path) -> dict[str, str]:
    """Return a checkpoint of OpenNMT-py with the byte-pair codes that its transform bpe names."""
    write_codes(folder)
    codes = {"src_subword_model": "bpecodes", "tgt_subword_model": "bpecodes"}
    model = {
        "encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True,
        "enc_layers": 2, "dec_layers": 1, "heads": 2, "hidden_size": 8, "word_vec_size": 8,
        "transformer_ff": 16, "dropout": [0.0], "attention_dropout": [0.0], "param_init_glorot": True,
        "param_init": 0,
    }  # fmt: skip
    settings = {**CORPORA, **model, **TRAINING, **codes, "transforms": ["bpe"], "save_model": "model"}
    (folder / "train.yaml").write_text(json.dumps(settings), encoding="utf-8")
    run("onmt_build_vocab -config train.yaml -n_sample -1", folder)
    run("onmt_train -config train.yaml", folder)
    model_file = f"model_step_{STEPS}.pt"
    run(
        f"onmt_translate -model {model_file} -src input.en -output output.de -beam_size 1 -max_length 30 "
        "-transforms bpe -src_subword_model bpecodes -tgt_subword_model bpecodes",
        folder,
    )
    return {model_file: model_file, "bpecodes": "bpecodes"}


def eole(folder: Path) -> dict[str, str]:
    """Return a model folder of eole with the sentencepiece models that its transform names."""
    import sentencepiece

    for lang in ("en", "de"):
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / f"train.{lang}"), model_prefix=str(folder / lang), vocab_size=150,
            hard_vocab_limit=False, normalization_rule_name="identity", minloglevel=2,
        )  # fmt: skip
    models = {"src_subword_model": "en.model", "tgt_subword_model": "de.model"}
    model = {
        "architecture": "transformer", "encoder": {"layers": 2}, "decoder": {"layers": 1}, "heads": 2,
        "hidden_size": 8, "transformer_ff": 16,
        "embeddings": {"word_vec_size": 8, "position_encoding_type": "SinusoidalInterleaved"},
    }  # fmt: skip
    training = {"model_path": "model", "compute_dtype": "fp32", "world_size": 0, "gpu_ranks": [], **TRAINING}
    settings = {
        **CORPORA, "overwrite": True, "transforms": ["sentencepiece"],
        "transforms_configs": {"sentencepiece": models}, "model": model, "training": training,
    }  # fmt: skip
    (folder / "train.yaml").write_text(json.dumps(settings), encoding="utf-8")
    run("eole build_vocab -config train.yaml -n_sample -1", folder)
    run("eole train -config train.yaml", folder)
    run(
        "eole predict -model_path model -src input.en -output output.de -beam_size 1 -max_length 30",
        folder,
    )
    return {f"model/{path.name}": path.name for path in (folder / "model").iterdir() if path.is_file()}


def sockeye(folder: Path) -> dict[str, str]:
    """Return a model folder of Sockeye, whose text comes in words."""
    run(
        "sockeye-train --source train.en --target train.de --validation-source valid.en --output model "
        "--validation-target valid.de --use-cpu --num-layers 2:1 --transformer-model-size 8 "
        "--transformer-feed-forward-num-hidden 16 --transformer-attention-heads 2 "
        "--transformer-dropout-prepost 0 --transformer-dropout-act 0 --transformer-dropout-attention 0 "
        f"--max-updates {STEPS} --checkpoint-interval {STEPS} --batch-size 800 --initial-learning-rate 0.01 "
        "--max-seq-len 30 --keep-last-params 1 --decode-and-evaluate 0 --learning-rate-scheduler-type none "
        "--weight-tying-type trg_softmax",
        folder,
    )
    run(
        "sockeye-translate --models model --input input.en --output output.de --beam-size 1 --use-cpu "
        "--max-output-length 30",
        folder,
    )
    kept = ("config", "params.best", "version", "vocab.src.0.json", "vocab.trg.0.json", "args.yaml")
    return {f"model/{name}": name for name in kept}


TOOLKITS = {"fairseq": fairseq, "opennmt": opennmt, "eole": eole, "sockeye": sockeye}


def main() -> None:
    """Make the files of the toolkit and put them into the folder."""
    toolkit, target = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_corpus(folder)
        kept = TOOLKITS[toolkit](folder) | {"input.en": "input.en", "output.de": "output.de"}
        shutil.rmtree(target, ignore_errors=True)
        for name, to in kept.items():
            (target / to).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / name, target / to)
    print(*(f"{path.stat().st_size:8d} {path}" for path in sorted(target.rglob("*"))), sep="\n")


if __name__ == "__main__":
    main()
