"""Text to ids and back: normalisation, and tokenizers of subwords, words or characters."""
