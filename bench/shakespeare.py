#!/usr/bin/env python3
"""Trains nanoGPT's CPU setting in PyTorch on a text such as Tiny Shakespeare; prints the loss on its last tenth and the time.

    bench/shakespeare.py --text FILE [--steps 2000] [--seeds 1 2 3] [--block 64] [--batch 12] [--threads N]

Trains on the first 90 % of the characters: 4 layers, 4 heads, 128 features, AdamW with rate 10⁻³ and β₂ 0.99, 100
steps of warm-up, cosine to 10⁻⁴ at the last step, decay 0.1 on matrices, no dropout, no biases. The loss is the mean
over all characters of the other 10 % except the first, in blocks that do not overlap. Prints a line of JSON for each seed
and one with the means; `seconds` is the time of training without evaluation.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch

import peer_models
from peer_models import Refused


def validation_loss(gpt, ids, block, at_once=64):
    """Returns the mean loss of every character after the first, given those before it in its block."""
    total, whole = 0.0, (len(ids) - 1) // block * block
    gpt.eval()
    with torch.no_grad():
        pieces = list(
            zip(ids[:whole].view(-1, block).split(at_once), ids[1 : whole + 1].view(-1, block).split(at_once))
        )
        if whole < len(ids) - 1:
            pieces.append((ids[None, whole:-1], ids[None, whole + 1 :]))
        for inputs, targets in pieces:
            total += float(gpt.loss(inputs, targets, reduction="sum"))
    gpt.train()
    return total / (len(ids) - 1)


def run(seed, ids, vocab, options):
    peer_models.use_threads(options.threads, seed)
    known = {**peer_models.NANO_GPT, "vocab": vocab, "position": {"kind": "learned", "max_length": options.block}}
    planned = {**peer_models.NANO_GPT_TRAINING, "steps": options.steps}
    model, training = peer_models.described({}, model=known, training=planned)
    cut = int(0.9 * len(ids))
    train, validation = ids[:cut], ids[cut:]
    gpt = peer_models.Gpt(model)
    trainer = peer_models.Trainer(gpt, training)
    generator = torch.Generator().manual_seed(seed)
    start = time.perf_counter()
    for _ in range(options.steps):
        inputs, targets = peer_models.random_blocks(train, options.batch, options.block, generator)
        last = trainer.step(lambda: gpt.loss(inputs, targets))
    seconds = time.perf_counter() - start
    return {
        "seed": seed,
        "steps": options.steps,
        "loss": validation_loss(gpt, validation, options.block),
        "training_loss": float(last),
        "seconds": seconds,
        "tokens_per_second": options.steps * options.batch * options.block / seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--threads", type=int, default=peer_models.default_threads())
    options = parser.parse_args()
    ids, vocab = peer_models.read_characters(options.text)
    if len(ids) // 10 <= options.block:
        raise Refused(f"{options.text} has {len(ids)} characters; a tenth of them is to be more than a block")
    torch.backends.mkldnn.enabled = False  # as in train_generate.py
    results = []
    for seed in options.seeds:
        results.append(run(seed, ids, vocab, options))
        print(json.dumps(results[-1]), flush=True)
    losses = [result["loss"] for result in results]
    print(json.dumps({
        "finished": True,
        "loss": statistics.mean(losses),
        "deviation": statistics.stdev(losses) if len(losses) > 1 else 0.0,
        "seconds": statistics.mean(result["seconds"] for result in results),
        "peer": f"PyTorch {torch.__version__}",
        "threads": options.threads,
    }))  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(f"bench/shakespeare.py: {refused}")
    except KeyboardInterrupt:
        sys.exit(130)
