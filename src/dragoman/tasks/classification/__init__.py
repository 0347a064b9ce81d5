"""Classification: labelled text in, a classifier out."""
