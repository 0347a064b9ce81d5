"""Ids to logits: the Transformer of Vaswani et al. 2017, and nothing that knows about text.

Read `layers` (the blocks of figures 1 and 2), then `transformer` (how they stand together), then
`incremental` (the same decoder, a token at a time). `kernels` holds the operations that have a
plain and a fast version.

Shapes: `B` batch, `S` source length, `T` target length, `H` heads, `D` d_model, `F` d_ff,
`V` vocabulary, `N` rows = B x beam.
"""
