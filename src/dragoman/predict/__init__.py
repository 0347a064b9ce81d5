"""Use trained runs: translate and classify text."""
