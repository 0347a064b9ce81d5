"""The grammar that wrote the embedded corpus: tables of words and constructions, and how they combine."""
