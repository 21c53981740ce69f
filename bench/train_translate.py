#!/usr/bin/env python3
"""Measures PyTorch's tokens per second in training a translator on batches from a file; prints one line of JSON.

    bench/train_translate.py --batches FILE.jsonl [--description FILE.json] [--seconds S] [--threads N]

--batches       lines of batches: {"source": [[ids]], "target": [[ids]]}, rows without padding, targets from the start
                token to the end token; id 0 is padding
--description   the model and its training, see peer_models.py; by default the vocabularies are those of the ids
--seconds       time to go over the batches, at least 3 times (default 20); the fastest pass counts
--threads       number of threads (default REGARD_THREADS, else 2)

All tokens of the source and all predicted tokens of the target count, without padding.
"""

import argparse
import json
import pathlib
import sys
import time

import torch

import peer_models
from peer_models import PAD, Refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=pathlib.Path, required=True)
    parser.add_argument("--description", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=peer_models.default_threads())
    options = parser.parse_args()
    peer_models.use_threads(options.threads)
    batches = peer_models.read_batches(options.batches)
    largest = max(int(torch.maximum(source.max(), target.max())) for source, target in batches)
    model, training = peer_models.read_description(options.description, model={"vocab": largest + 1})
    translator = peer_models.Translator(model)
    trainer = peer_models.Trainer(translator, training)

    def step(source, target):
        return trainer.step(lambda: translator.loss(source, target, training["label_smoothing"]))

    first = float(step(*batches[0]))
    passes, spent = [], 0.0
    while len(passes) < 3 or spent < options.seconds:
        start = time.perf_counter()
        for batch in batches:
            last = step(*batch)
        passes.append(time.perf_counter() - start)
        spent += passes[-1]
    sources = sum(int((source != PAD).sum()) for source, _ in batches)
    targets = sum(int((target[:, 1:] != PAD).sum()) for _, target in batches)
    result = {
        "work": "train translate",
        "tokens_per_second": (sources + targets) / min(passes),
        "target_tokens_per_second": targets / min(passes),
        "ms": min(passes) / len(batches) * 1e3,
        "batches": len(batches),
        "passes": len(passes),
        "parameters": sum(weight.numel() for weight in translator.parameters()),
        "first_loss": first,
        "last_loss": float(last),
        "peer": f"PyTorch {torch.__version__}",
        "threads": options.threads,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(f"bench/train_translate.py: {refused}")
    except KeyboardInterrupt:
        sys.exit(130)
