"""benchmarks/peers/decode_with_joeynmt.py: JoeyNMT has the same function when it has the same weights."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from dragoman.predict.translator import Translator

pytest.importorskip("joeynmt", reason="JoeyNMT is a peer, installed by make only")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "peers"))

import decode_with_joeynmt as peer


@pytest.mark.filterwarnings("ignore")
def test_joeynmt_computes_what_we_compute(tiny_run: Path) -> None:
    ours = Translator.load(tiny_run, precision="fp32").model
    theirs = peer.load(tiny_run)
    src = torch.tensor([[4, 9, 7, 2], [5, 6, 2, 0]])
    tgt = torch.tensor([[1, 5, 8], [1, 7, 4]])
    their_src, their_tgt = peer.theirs(src), peer.theirs(tgt)
    mask = (src != 0)[:, None]
    encoded, _, _, _ = theirs(return_type="encode", src=their_src, src_length=None, src_mask=mask)
    out, _, _, _ = theirs(
        return_type="decode", trg_input=their_tgt, encoder_output=encoded, encoder_hidden=None,
        src_mask=mask, unroll_steps=None, decoder_hidden=None, trg_mask=(tgt >= 0)[:, None],
    )  # fmt: skip
    expected = ours(src, src != 0, tgt)
    order = [*peer.THEIR_IDS.tolist(), *range(4, expected.shape[-1])]
    torch.testing.assert_close(out[:, :, order], expected, rtol=1e-4, atol=1e-5)
