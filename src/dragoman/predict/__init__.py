"""A trained run as a function: text in; translation or label out."""
