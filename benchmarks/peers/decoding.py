"""What the workers of benchmarks/decode_speed.py have in common: how they are asked, and what they answer.

A worker is started with a folder of the model, and says "ready". Then it reads lines of JSON,
{"texts": FILE, "beam_size": N, "repeat": N, "longest": N}, translates all lines of the file `repeat` times,
as one corpus, and answers {"seconds": S, "texts": [...]}, the translations of the first time. "longest"
is the most tokens a translation may have, for models that have not learnt to end; 0: as each does it.
"""

import json
import sys
import time
from pathlib import Path


def serve(translate):
    """`translate(texts, beam_size, longest)` gives the translations of a list of sentences, in order."""
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        texts = Path(request["texts"]).read_text(encoding="utf-8").splitlines()
        start = time.perf_counter()
        found = translate(texts * request["repeat"], request["beam_size"], request["longest"])
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "texts": found[: len(texts)]}), flush=True)
