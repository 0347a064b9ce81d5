"""Scores: of translations (sacreBLEU), and of classifications."""
