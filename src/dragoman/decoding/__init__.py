"""Search over a next-token function, independent of any network, so that it can be tested on tables."""
