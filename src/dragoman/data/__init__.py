"""From a corpus to batches: readers, the memory-mapped token store, batches by length."""
