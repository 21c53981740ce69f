"""PyTorch's side of the speed comparison: reads lines of `{"work", "seconds"}`, answers with lines of `{"work", "ms", …}`.

`bench/compare` starts it and alternates it with `regard bench`. Both sides build a work from its name, which has the
shape.

PyTorch runs in its fastest eager float32 form. Each choice below has the time of the alternative beside it
(PyTorch 2.15, two cores of a Xeon with AVX-512, least of several alternating rounds, ms).
Not used, because they change nothing or lose: `set_flush_denormal` (651 without, 666 with), one thread for the tiny
model (3.11 against 3.19; both sides have two), `[batch, seq, heads, d_head]` strides for attention (1-8 % slower).
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
    """A pre-norm GPT block: causal attention and a GELU feed-forward part."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        batch, seq, d_model = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, seq, 3, self.n_heads, d_model // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # with three linear layers a step takes 654 ms instead of 645, tiny 4.2 instead of 3.6
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
        # With transposed logits a step takes 825 ms instead of 645; with log-sum-exp minus the target's logit 687.
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def train(batch, seq, d_model, n_heads, n_layers, d_ff, vocab):
    model = Gpt(seq, d_model, n_heads, n_layers, d_ff, vocab)
    parameters = list(model.parameters())
    # Times of the large and the tiny model: fused 645 and 3.6, foreach 655 and 4.7, one by one 667 and 5.5.
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    ids = torch.randint(vocab, (batch, seq + 1))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def step():
        optimizer.zero_grad(set_to_none=True)  # zeroing in place takes 652 and 4.1
        loss = model(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return [step]


def attention(kind, batch, heads, seq, d_head, phase):
    """Returns one or more forms of the same work, of which the fastest counts."""
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
    if mask is not None and mask.dtype == torch.bool:
        # PyTorch converts a boolean mask to this in every call (41.7 instead of 40.1; window 585 instead of 554).
        mask = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
    leaves = [q, k, v] + ([mask] if kind == "bias" else [])

    def forward():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)

    def written_out():
        scores = (q * d_head**-0.5) @ k.transpose(-1, -2)
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        return F.dropout(weights, dropout) @ v if dropout else weights @ v

    if phase == "forward":
        return [forward]
    gradient = torch.randn(batch, heads, seq, d_head)
    if phase == "backward":
        out = forward()
        return [lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True)]
    # With dropout or a learned bias PyTorch does not use its fused kernel, and plain operations are faster:
    # dropout 103 instead of 113, bias 38 instead of 47.
    forms = [forward, written_out] if kind in ("dropout", "bias") else [forward]
    return [lambda form=form: torch.autograd.grad(form(), leaves, gradient) for form in forms]


def lstm(batch, seq, d_in, d_hidden):
    # Time first, as in its kernel, is 1-2 % faster than `batch_first`. Without oneDNN it takes 2-6 times as long.
    layer = nn.LSTM(d_in, d_hidden)
    x = torch.randn(seq, batch, d_in, requires_grad=True)
    gradient = torch.randn(seq, batch, d_hidden)
    leaves = [x, *layer.parameters()]
    return [lambda: torch.autograd.grad(layer(x)[0], leaves, gradient)]


def convolution(batch, in_channels, out_channels, side, kernel, stride, phase):
    """Returns the work on images in PyTorch's usual order and with channels last, of which the faster counts."""

    def form(memory_format):
        layer = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2).to(memory_format=memory_format)
        x = torch.randn(batch, in_channels, side, side).to(memory_format=memory_format).requires_grad_(phase != "forward")
        if phase == "forward":

            def forward():
                with torch.no_grad():
                    return layer(x)

            return forward
        leaves, out = [x, *layer.parameters()], layer(x)
        gradient = torch.randn_like(out)
        if phase == "backward":
            return lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True)
        return lambda: torch.autograd.grad(layer(x), leaves, gradient)

    return [form(torch.contiguous_format), form(torch.channels_last)]


def icl_fields(d, n, p):
    """Returns couplings and fields of linear attention from prompts of linear regression, in float64."""
    side, block = d + 1, 250  # prompts at a time: 484 ms, all at once 554; drawing the normal numbers takes 466
    moments, h = torch.zeros(side * d, side * d, dtype=torch.float64), torch.zeros(side * d, dtype=torch.float64)
    for count in [block] * (p // block) + [p % block] * (p % block > 0):
        w, x = torch.randn(count, d, 1, dtype=torch.float64), torch.randn(count, n + 1, d, dtype=torch.float64)
        y = (x @ w).squeeze(-1) / d**0.5
        labels, answer, query = y[:, :-1], y[:, -1], x[:, -1]
        # The last row of X Xᵀ has labels times inputs and labels times labels; the query's own label is 0.
        rows = (labels[:, None] @ x[:, :-1]).squeeze(1)
        labelled = torch.cat([rows, labels.square().sum(1, keepdim=True)], 1) / (n + 1)
        s = (labelled[:, :, None] * query[:, None]).view(count, -1)
        moments += s.T @ s
        h += s.T @ answer
    return moments / p, h / p


def icl(step, d, n, p):
    if step == "fields":
        return [lambda: icl_fields(d, n, p)]
    moments, h = icl_fields(d, n, p)
    stiffness = moments.diagonal() + 0.01
    couplings = -moments
    couplings.fill_diagonal_(0)

    def iterations():
        """Iterates m_i = (h_i + Σ J m) v_i, v_i = 1 / (λ_i − Σ J² v) twenty times, damped, spin by spin."""
        m, v = torch.zeros_like(h), 1 / stiffness
        for _ in range(20):
            new_m, new_v = torch.empty_like(m), torch.empty_like(v)
            for i in range(len(h)):
                row = couplings[i]
                new_v[i] = 1 / (stiffness[i] - (row**2 * v).sum())
                new_m[i] = (h[i] + (row * m).sum()) * new_v[i]
            m, v = 0.5 * m + 0.5 * new_m, 0.5 * v + 0.5 * new_v

    return [iterations]


def work(name):
    """Returns the work as a list of equivalent calls."""
    kind, _, rest = name.partition("/")
    parts = rest.split("/")
    sizes = [int(n) for n in parts[0 if kind in ("train", "lstm", "convolution") else 1].split("x")]
    # The overhead of oneDNN's calls matters in small models (tiny: 3.51 with, 3.19 without); the large one takes 657 either way.
    torch.backends.mkldnn.enabled = kind != "train"
    if kind == "train":
        return train(*sizes)
    if kind == "lstm":
        return lstm(*sizes)
    if kind == "attention":
        return attention(parts[0], *sizes, phase=parts[2])
    if kind == "convolution":
        return convolution(*sizes, phase=parts[1])
    if kind == "icl":
        return icl(parts[0], *sizes)
    raise ValueError(f"unknown work {name}")


def measure(step, budget):
    """Returns the least time of a call in ms, over at least 3 calls and about `budget` seconds."""
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
            built.clear()  # keep the tensors of one work only
            built[name] = work(name)
        forms = built[name]
        ms = min(measure(form, request["seconds"] / len(forms)) for form in forms)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"work": name, "ms": ms, "peak_bytes": peak, "version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
