"""Text to ids and back: normalisation, and subword tokenizers learnt from the corpus."""
