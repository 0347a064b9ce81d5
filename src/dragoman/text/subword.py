"""Moved: see `tokenizer` and `vocabulary`."""

from dragoman.text.tokenizer import Token, Tokenizer, TokenizerPair
from dragoman.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

__all__ = ["BOS_ID", "EOS_ID", "PAD_ID", "UNK_ID", "Token", "Tokenizer", "TokenizerPair"]
