"""Models of other toolkits in, and models for other runtimes out."""
