"""What is learnt: its data, its loss and its measure. `task` says what the loop needs to know of it."""
