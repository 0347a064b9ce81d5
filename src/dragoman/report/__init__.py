"""Reports and pictures of runs: learning curves, schedules, scores, attention, comparisons."""
