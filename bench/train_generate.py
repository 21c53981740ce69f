#!/usr/bin/env python3
"""Measures PyTorch's tokens per second in training a character GPT on a text; prints one line of JSON.

    bench/train_generate.py --text FILE [--block 64] [--batch 12] [--description FILE.json] [--seconds S] [--threads N]

--text          a text; its distinct characters are the vocabulary
--block         number of characters in a stretch (default 64)
--batch         number of stretches in a step (default 12)
--description   the model and its training, see peer_models.py; missing keys are those of nanoGPT's CPU setting
--seconds       time to train (default 20); the fastest tenth counts
--threads       number of threads (default REGARD_THREADS, else 2)
"""

import argparse
import json
import pathlib
import sys
import time

import torch

import peer_models
from peer_models import Refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--description", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=peer_models.default_threads())
    options = parser.parse_args()
    peer_models.use_threads(options.threads)
    ids, vocab = peer_models.read_characters(options.text)
    if len(ids) <= options.block:
        raise Refused(f"{options.text} has {len(ids)} characters, a block {options.block}")
    known = {**peer_models.NANO_GPT, "vocab": vocab, "position": {"kind": "learned", "max_length": options.block}}
    model, training = peer_models.read_description(
        options.description, model=known, training=peer_models.NANO_GPT_TRAINING
    )
    # As in peer_torch.py, oneDNN's calls cost more than they gain in a model of this size.
    torch.backends.mkldnn.enabled = False
    gpt = peer_models.Gpt(model)
    trainer = peer_models.Trainer(gpt, training)
    generator = torch.Generator().manual_seed(0)

    def step():
        inputs, targets = peer_models.random_blocks(ids, options.batch, options.block, generator)
        return trainer.step(lambda: gpt.loss(inputs, targets))

    first = float(step())
    best, spent = float("inf"), 0.0
    while spent < options.seconds or best == float("inf"):
        start, steps = time.perf_counter(), 0
        while steps < 3 or time.perf_counter() - start < options.seconds / 10:
            last = step()
            steps += 1
        took = time.perf_counter() - start
        best, spent = min(best, took / steps), spent + took
    result = {
        "work": "train generate",
        "tokens_per_second": options.batch * options.block / best,
        "ms": best * 1e3,
        "steps": trainer.steps,
        "parameters": sum(weight.numel() for weight in gpt.parameters()),
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
        sys.exit(f"bench/train_generate.py: {refused}")
    except KeyboardInterrupt:
        sys.exit(130)
