"""Updates of the weights: gradients, rates, the optimizer, and what is done where something goes wrong."""
