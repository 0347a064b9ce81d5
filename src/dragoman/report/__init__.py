"""Pictures: the learning curves of a run, and the learning rate of a schedule."""
