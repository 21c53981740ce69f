"""PyTorch's side of the comparison: reads a work name a line, answers `{"ms": …}` a line.

Started by `bench/compare`, which alternates it with `regard bench`. The shapes are those of `regard bench --list`;
the name carries them, so both sides build the work from the same string.
"""

import json
import os
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("REGARD_THREADS", "2")))
torch.manual_seed(0)


class Block(nn.Module):
    """Pre-norm GPT block: causal attention and a GELU feed-forward."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        batch, seq, d_model = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, seq, 3, self.n_heads, d_model // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, d_model))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, seq, d_model, n_heads, n_layers, d_ff, vocab):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, d_model), nn.Embedding(seq, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position.weight
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def train(batch, seq, d_model, n_heads, n_layers, d_ff, vocab):
    model = Gpt(seq, d_model, n_heads, n_layers, d_ff, vocab)
    # The fastest of PyTorch's AdamW implementations on a CPU.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ids = torch.randint(vocab, (batch, seq + 1))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def attention(kind, batch, heads, seq, d_head, phase):
    q, k, v = (torch.randn(batch, heads, seq, d_head, requires_grad=phase != "forward") for _ in range(3))
    mask, dropout, causal = None, 0.0, kind == "causal"
    if kind == "dropout":
        dropout = 0.1
    elif kind == "bias":
        mask = torch.randn(1, heads, seq, seq, requires_grad=True)
    elif kind == "boolean":
        mask = torch.rand(batch, 1, seq, seq) < 0.8
        mask[..., 0] = True
    elif kind == "window":
        distance = torch.arange(seq)[:, None] - torch.arange(seq)[None]
        mask = distance.abs() <= 64
    leaves = [q, k, v] + ([mask] if kind == "bias" else [])

    def forward():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)

    if phase == "forward":
        return forward
    gradient = torch.randn(batch, heads, seq, d_head)
    if phase == "backward":
        out = forward()
        return lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True)
    return lambda: torch.autograd.grad(forward(), leaves, gradient)


def lstm(batch, seq, d_in, d_hidden):
    layer = nn.LSTM(d_in, d_hidden, batch_first=True)
    x = torch.randn(batch, seq, d_in, requires_grad=True)
    gradient = torch.randn(batch, seq, d_hidden)
    leaves = [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x)[0], leaves, gradient)


def work(name):
    kind, _, rest = name.partition("/")
    parts = rest.split("/")
    sizes = [int(n) for n in parts[0 if kind in ("train", "lstm") else 1].split("x")]
    if kind == "train":
        return train(*sizes)
    if kind == "lstm":
        return lstm(*sizes)
    if kind == "attention":
        return attention(parts[0], *sizes, phase=parts[2])
    raise ValueError(f"unknown work {name}")


def measure(step, budget):
    """The least time of one call in ms, over at least 3 calls and about `budget` seconds."""
    step()
    best, spent, calls = float("inf"), 0.0, 0
    while calls < 3 or (spent < budget and calls < 2000):
        start = time.perf_counter()
        step()
        took = time.perf_counter() - start
        best, spent, calls = min(best, took), spent + took, calls + 1
    return best * 1e3


def main():
    built = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["work"]
        if name not in built:
            built.clear()  # one work's tensors at a time
            built[name] = work(name)
        ms = measure(built[name], request["seconds"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"work": name, "ms": ms, "peak_bytes": peak, "version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
