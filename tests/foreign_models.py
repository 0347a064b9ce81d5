"""Small models of other toolkits, written by those toolkits themselves, for tests of importing."""

import copy
import io
import json
from pathlib import Path
from typing import Any

from tiny import WORDS

SENTENCES = (
    "the red cat", "a big dog and a small bird", "old trees, big rivers!", "is the blue house green?",
    "red red red", "the cat saw the old dog by the river.",
)  # fmt: skip

JOEYNMT_SIDE = {
    "type": "transformer", "num_layers": 2, "num_heads": 2, "hidden_size": 16, "ff_size": 24, "dropout": 0.1,
    "embeddings": {"embedding_dim": 16, "scale": True}, "layer_norm": "pre",
}  # fmt: skip
JOEYNMT: dict[str, Any] = {
    "name": "tiny", "joeynmt_version": "2.3.0", "model_dir": "model", "use_cuda": False, "random_seed": 1,
    "data": {
        "train": "train", "dev": "dev", "dataset_type": "plain",
        "src": {"lang": "en", "level": "word", "lowercase": False, "max_length": 20},
        "trg": {"lang": "de", "level": "word", "lowercase": False, "max_length": 20},
    },
    "testing": {
        "beam_size": 3, "beam_alpha": 0.7, "batch_size": 10, "batch_type": "sentence",
        "eval_metrics": ["bleu"],
    },
    "training": {
        "optimizer": "adam", "learning_rate": 0.01, "scheduling": "warmupinversesquareroot",
        "learning_rate_warmup": 5, "batch_size": 20, "batch_type": "sentence", "epochs": 2,
        "validation_freq": 3, "logging_freq": 3,
        "early_stopping_metric": "ppl", "print_valid_sents": [],
    },
    "model": {
        "initializer": "xavier_uniform", "tied_softmax": True, "encoder": JOEYNMT_SIDE,
        "decoder": copy.deepcopy(JOEYNMT_SIDE),
    },
}  # fmt: skip
"""A config.yaml of a small model: JoeyNMT trains it in seconds."""


def train_sentencepiece(texts: list[str], *, vocab_size: int) -> bytes:
    """The bytes of a SentencePiece model of about `vocab_size` pieces."""
    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=written,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return written.getvalue()


def sentencepieces(model: bytes) -> list[str]:
    """Its pieces, without the special ones."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.IdToPiece(i) for i in range(processor.GetPieceSize())]
    return [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>")]


def write_marian(folder: Path, *, languages: tuple[str, ...] = (), **settings: Any) -> Path:
    """A folder as `MarianMTModel.save_pretrained` writes it, with random weights and an output bias.

    The vocabulary is in Marian's order: </s>, <unk>, pieces of both languages, <pad>. `settings` are of
    config.json; with share_encoder_decoder_embeddings=False the target has a vocabulary of its own.
    """
    import torch
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    models = {
        "source.spm": train_sentencepiece([*WORDS, *SENTENCES] * 5, vocab_size=60),
        "target.spm": train_sentencepiece([*WORDS.values()] * 9, vocab_size=50),
    }
    for name, model in models.items():
        (folder / name).write_bytes(model)
    src, tgt = (sentencepieces(model) for model in models.values())
    shared = settings.get("share_encoder_decoder_embeddings", True)
    vocabularies = {"vocab.json": [*src, *(p for p in tgt if p not in src)] if shared else src}
    if not shared:
        vocabularies["target_vocab.json"] = tgt
    for name, pieces in vocabularies.items():
        tokens = ["</s>", "<unk>", *languages, *pieces, "<pad>"]
        (folder / name).write_text(json.dumps({token: i for i, token in enumerate(tokens)}), encoding="utf-8")
    sizes = [len(pieces) + len(languages) + 3 for pieces in vocabularies.values()]
    torch.manual_seed(len(str(settings)))
    config = MarianConfig(**{
        "vocab_size": sizes[0], "decoder_vocab_size": sizes[-1], "d_model": 16,
        "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64,
        "activation_function": "swish", "scale_embedding": True, "init_std": 0.3,
        "pad_token_id": sizes[-1] - 1, "decoder_start_token_id": sizes[-1] - 1,
        "eos_token_id": 0, "forced_eos_token_id": 0, **settings,
    })  # fmt: skip
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases and norms begin as zeros and ones, which would hide mistakes
                parameter.add_(torch.randn_like(parameter) * 0.2)
        model.final_logits_bias.normal_()
    model.generation_config.num_beams = 4
    model.generation_config.length_penalty = 0.8
    model.generation_config.max_length = 40
    model.generation_config.bad_words_ids = [[config.pad_token_id]]
    model.save_pretrained(folder)
    names = {"source_lang": "en", "target_lang": "de", "separate_vocabs": not shared}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "MarianTokenizer", **names}), encoding="utf-8"
    )
    return folder
