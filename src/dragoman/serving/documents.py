"""Documents over HTTP."""

ENDINGS = (".txt",)
