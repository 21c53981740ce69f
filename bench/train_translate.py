#!/usr/bin/env python3
"""Measures PyTorch's tokens per second in training a translator on batches from a file; prints one line of JSON.

    bench/train_translate.py --batches FILE.jsonl [--description FILE.json] [--seconds S] [--threads N] [--processes K]

--batches       lines of batches: {"source": [[ids]], "target": [[ids]]}, rows without padding, targets from the start
                token to the end token; id 0 is padding
--description   the model and its training, see peer_models.py; by default the vocabularies are those of the ids
--seconds       time to go over the batches, at least 3 times (default 20); the fastest pass counts
--threads       number of threads of each process (default REGARD_THREADS, else 2)
--processes     number of processes that share each batch by DistributedDataParallel over gloo (default 1: without it)

All tokens of the source and all predicted tokens of the target count, without padding.
"""

import argparse
import json
import os
import pathlib
import socket
import sys
import time

import torch
import torch.distributed
import torch.nn as nn

import peer_models
from peer_models import PAD, Refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=pathlib.Path, required=True)
    parser.add_argument("--description", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=peer_models.default_threads())
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if options.processes == 1:
        print(json.dumps(measured(0, options)))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    torch.multiprocessing.spawn(process, (options,), options.processes)


def process(rank, options):
    torch.distributed.init_process_group("gloo", rank=rank, world_size=options.processes)
    result = measured(rank, options)
    if rank == 0:
        print(json.dumps(result))
    torch.distributed.destroy_process_group()


class Loss(nn.Module):
    """The loss as a forward pass, which DistributedDataParallel needs."""

    def __init__(self, translator, smoothing):
        super().__init__()
        self.translator, self.smoothing = translator, smoothing

    def forward(self, source, target):
        return self.translator.loss(source, target, self.smoothing)


def measured(rank, options):
    peer_models.use_threads(options.threads)
    batches = peer_models.read_batches(options.batches)
    largest = max(int(torch.maximum(source.max(), target.max())) for source, target in batches)
    model, training = peer_models.read_description(options.description, model={"vocab": largest + 1})
    translator = peer_models.Translator(model)
    trainer = peer_models.Trainer(translator, training)
    loss = Loss(translator, training["label_smoothing"])
    own = lambda rows: rows[rank * len(rows) // options.processes : (rank + 1) * len(rows) // options.processes]
    if options.processes > 1:
        loss = nn.parallel.DistributedDataParallel(loss)
    shares = [(own(source), own(target)) for source, target in batches]

    def step(source, target):
        return trainer.step(lambda: loss(source, target))

    first = float(step(*shares[0]))
    passes, spent = [], 0.0
    while len(passes) < 3 or spent < options.seconds:
        start = time.perf_counter()
        for batch in shares:
            last = step(*batch)
        passes.append(time.perf_counter() - start)
        spent += passes[-1]
        if options.processes > 1:
            # All processes make as many passes.
            agreed = torch.tensor([spent])
            torch.distributed.broadcast(agreed, 0)
            spent = float(agreed)
    sources = sum(int((source != PAD).sum()) for source, _ in batches)
    targets = sum(int((target[:, 1:] != PAD).sum()) for _, target in batches)
    return {
        "work": "train translate",
        "tokens_per_second": (sources + targets) / min(passes),
        "target_tokens_per_second": targets / min(passes),
        "ms": min(passes) / len(batches) * 1e3,
        "batches": len(batches),
        "passes": len(passes),
        "parameters": sum(weight.numel() for weight in translator.parameters()),
        "first_loss": first,
        "last_loss": float(last),
        "peer": f"PyTorch {torch.__version__}" + (", DDP over gloo" if options.processes > 1 else ""),
        "processes": options.processes,
        "threads": options.threads,
    }


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(f"bench/train_translate.py: {refused}")
    except KeyboardInterrupt:
        sys.exit(130)
