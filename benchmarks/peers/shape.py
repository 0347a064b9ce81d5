"""The model that all of them train: 7.6 million parameters, as in benchmarks/train_speed.py."""

D_MODEL, D_FF, N_HEADS, N_LAYERS = 256, 1024, 4, 3
DROPOUT, SMOOTHING, RATE, MAX_LENGTH = 0.3, 0.1, 2e-3, 128
PAD = 0
