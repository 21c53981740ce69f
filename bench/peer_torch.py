"""PyTorch's side of the speed comparison: reads lines of `{"work", "seconds"}`, answers with lines of `{"work", "ms", …}`.

`bench/compare` starts it and alternates it with `regard bench`. Both sides build a work from its name, which has the
shape.

PyTorch runs in its fastest eager float32 form; with REGARD_PEER_COMPILE the model of a training step is compiled by `torch.compile`. Each choice below has the time of the alternative beside it
(PyTorch 2.15, two cores of a Xeon with AVX-512, least of several alternating rounds, ms).
Not used, because they change nothing or lose: `set_flush_denormal` (651 without, 666 with), one thread for the tiny
model (3.11 against 3.19; both sides have two), `[batch, seq, heads, d_head]` strides for attention (1-8 % slower).
"""

import json
import math
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
    """A pre-norm block of a GPT or, without the causal mask, of a Vision Transformer: attention and a GELU feed-forward part."""

    def __init__(self, d_model, n_heads, d_ff, causal=True):
        super().__init__()
        self.n_heads, self.causal, self.mask = n_heads, causal, None
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, attend=None):
        """`attend` may take the place of attention of the sequence over itself: it gets queries, keys and values."""
        batch, seq, d_model = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, seq, 3, self.n_heads, d_model // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # with three linear layers a step takes 654 ms instead of 645, tiny 4.2 instead of 3.6
        if attend is not None:
            y = attend(q, k, v)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.causal)
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

    def next_logits(self, ids, caches):
        """Returns the logits after one further token of each sequence; `caches` has a [`Cache`] for each block."""
        at = caches[0].used
        x = self.token(ids) + self.position.weight[at]
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache.attend)
        return self.head(self.norm(x))


class Cache:
    """Keys and values in memory of a fixed size, or joined with new ones at each token."""

    def __init__(self, batch, heads, used, d_head, joins):
        self.used, self.joins = used, joins
        self.keys, self.values = (torch.randn(batch, heads, used + (not joins), d_head) for _ in range(2))

    def attend(self, q, k, v):
        if self.joins:
            keys, values = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        else:
            self.keys[:, :, self.used :] = k
            self.values[:, :, self.used :] = v
            keys, values = self.keys, self.values
        return F.scaled_dot_product_attention(q, keys, values)


class Vit(nn.Module):
    """A Vision Transformer with a class token and learned positions, for grey images and ten labels."""

    def __init__(self, side, patch, d_model, n_heads, n_layers, d_ff):
        super().__init__()
        self.patch, tokens = patch, (side // patch) ** 2 + 1
        self.embedding = nn.Linear(patch * patch, d_model)
        self.token, self.position = nn.Parameter(torch.randn(1, 1, d_model)), nn.Parameter(torch.randn(tokens, d_model))
        self.blocks = nn.ModuleList(Block(d_model, n_heads, d_ff, causal=False) for _ in range(n_layers))
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, 10)

    def forward(self, x, targets):
        batch, _, side, _ = x.shape
        cells = x.view(batch, side // self.patch, self.patch, side // self.patch, self.patch).transpose(2, 3)
        x = self.embedding(cells.reshape(batch, -1, self.patch * self.patch))
        x = torch.cat([self.token.expand(batch, 1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]), targets)


class Normed(nn.Module):
    """A convolution without bias, and its group norm."""

    def __init__(self, d_in, d_out, kernel, stride, groups):
        super().__init__()
        self.conv = nn.Conv2d(d_in, d_out, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.GroupNorm(groups, d_out)

    def forward(self, x):
        return self.norm(self.conv(x))


class ResidualBlock(nn.Module):
    def __init__(self, d_in, d_out, stride, groups):
        super().__init__()
        self.first, self.second = Normed(d_in, d_out, 3, stride, groups), Normed(d_out, d_out, 3, 1, groups)
        self.shortcut = Normed(d_in, d_out, 1, stride, groups) if d_in != d_out or stride != 1 else nn.Identity()

    def forward(self, x):
        # In place, ReLU and sum need no new memory.
        y = self.second(F.relu(self.first(x), inplace=True))
        return F.relu(y.add_(self.shortcut(x)), inplace=True)


class Cnn(nn.Module):
    """A residual network of one block per stage, for grey images and ten labels."""

    def __init__(self, groups, *channels):
        super().__init__()
        self.stem = Normed(1, channels[0], 3, 1, groups)
        pairs = zip((channels[0], *channels), channels)
        self.blocks = nn.Sequential(*(ResidualBlock(d_in, d, 2 if n else 1, groups) for n, (d_in, d) in enumerate(pairs)))
        self.head = nn.Linear(channels[-1], 10)

    def forward(self, x, targets):
        x = self.blocks(F.relu(self.stem(x), inplace=True))
        return F.cross_entropy(self.head(x.mean((2, 3))), targets)


class GraphAttention(nn.Module):
    """A graph attention layer (GAT) whose softmax over the edges to a node is computed by scatter operations."""

    def __init__(self, d_in, heads, d_head, average):
        super().__init__()
        self.values = nn.Parameter(torch.empty(d_in, heads * d_head))
        self.source, self.target = (nn.Parameter(torch.empty(heads, d_head)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(d_head if average else heads * d_head))
        self.shape, self.average = (heads, d_head), average
        for weight in (self.values, self.source, self.target):
            nn.init.xavier_uniform_(weight)

    def forward(self, x, sources, targets, nodes):
        h = (x @ self.values).unflatten(1, self.shape)
        scores = F.leaky_relu((h * self.source).sum(-1)[sources] + (h * self.target).sum(-1)[targets], 0.2)
        index = targets[:, None].expand_as(scores)
        highest = scores.new_full((nodes, scores.shape[1]), -torch.inf)
        highest = highest.scatter_reduce(0, index, scores.detach(), "amax")
        powers = (scores - highest[targets]).exp()
        weights = powers / torch.zeros_like(highest).index_add(0, targets, powers)[targets]
        weights = F.dropout(weights, 0.6, self.training)
        mixed = torch.zeros_like(h).index_add(0, targets, weights[..., None] * h[sources])
        return (mixed.mean(1) if self.average else mixed.flatten(1)) + self.bias


class Gat(nn.Module):
    """Two graph attention layers with dropout 0.6 of features and weights. The features are dense, or sparse by rows."""

    def __init__(self, d_in, d_model, heads, labels, edges, nodes):
        super().__init__()
        self.first = GraphAttention(d_in, heads, d_model // heads, False)
        self.second = GraphAttention(d_model, 1, labels, True)
        self.edges, self.nodes = edges, nodes

    def forward(self, x, labels=None):
        """Returns the loss of the first nodes or, without labels, the logits of all."""
        if x.layout == torch.sparse_csr:
            values = F.dropout(x.values(), 0.6, self.training)
            x = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)
        else:
            x = F.dropout(x, 0.6, self.training)
        x = F.dropout(F.elu(self.first(x, *self.edges, self.nodes)), 0.6, self.training)
        logits = self.second(x, *self.edges, self.nodes)
        return logits if labels is None else F.cross_entropy(logits[: len(labels)], labels)


def graph_work(nodes, links, features, own, d_model, heads, labels, trains):
    """Returns the training step or the evaluation, with dense and with sparse features."""
    here, there = torch.arange(nodes).repeat(links), torch.randint(nodes, (nodes * links,))
    loops = torch.arange(nodes)
    pairs = torch.stack([torch.cat([here, there, loops]), torch.cat([there, here, loops])])
    pairs = torch.unique(pairs, dim=1)
    # Sorted by target, which is the faster order here.
    edges = pairs[:, pairs[1].argsort(stable=True)].contiguous()
    x = torch.zeros(nodes, features)
    x[torch.arange(nodes).repeat_interleave(own), torch.randint(features, (nodes * own,))] = 1 / own
    answers = torch.arange(nodes // 20) % labels
    model = lambda: Gat(features, d_model, heads, labels, tuple(edges), nodes)
    forms = [x, x.to_sparse_csr()]
    if trains:
        return [training(model(), form, answers) for form in forms]
    return [without_gradients(model().eval(), form) for form in forms]


def without_gradients(call, *arguments):
    """Returns a call in inference mode."""

    def run():
        with torch.inference_mode():
            return call(*arguments)

    return run


def with_and_without_onednn(make):
    """Returns both forms of a call; for small products the overhead of oneDNN's calls matters."""

    def form(onednn):
        call = make()

        def run():
            torch.backends.mkldnn.enabled = onednn
            call()

        return run

    return [form(False), form(True)]


def evaluate(batch, seq, d_model, n_heads, n_layers, d_ff, vocab):
    ids = torch.randint(vocab, (batch, seq + 1))
    model = Gpt(seq, d_model, n_heads, n_layers, d_ff, vocab).eval()
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return with_and_without_onednn(lambda: without_gradients(model, inputs, targets))


def decode(batch, cached, d_model, n_heads, n_layers, d_ff, vocab):
    """Returns a step with keys and values in memory of a fixed size, and with memory joined at each token."""
    model, ids = Gpt(cached + 1, d_model, n_heads, n_layers, d_ff, vocab).eval(), torch.randint(vocab, (batch, 1))

    def form(joins):
        caches = [Cache(batch, n_heads, cached, d_model // n_heads, joins) for _ in range(n_layers)]
        return without_gradients(model.next_logits, ids, caches)

    return [run for joins in (False, True) for run in with_and_without_onednn(lambda: form(joins))]


def recurrent_step(kind, batch, d_in, d_hidden):
    """Returns one step of the layer and of the cell."""
    layer = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](d_in, d_hidden).eval()
    cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[kind](d_in, d_hidden).eval()
    x, states = torch.randn(1, batch, d_in), [torch.zeros(1, batch, d_hidden) for _ in range(2)]
    state = (lambda states: tuple(states)) if kind == "lstm" else (lambda states: states[0])
    layers = with_and_without_onednn(lambda: without_gradients(layer, x, state(states)))
    cells = with_and_without_onednn(lambda: without_gradients(cell, x[0], state([state[0] for state in states])))
    return layers + cells


def train(batch, seq, d_model, n_heads, n_layers, d_ff, vocab, bf16=False):
    ids = torch.randint(vocab, (batch, seq + 1))
    # The overhead of oneDNN's calls matters in small models (tiny: 3.51 with, 3.19 without); the large one takes 657 either way.
    # Products in bf16 are oneDNN's.
    torch.backends.mkldnn.enabled = bf16
    model = Gpt(seq, d_model, n_heads, n_layers, d_ff, vocab)
    return [training(model, ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), bf16)]


def train_image(kind, batch, side, *sizes):
    """Returns the step with and without oneDNN, and of a network of convolutions also with channels last."""
    images, labels = torch.rand(batch, 1, side, side) * 2 - 1, torch.arange(batch) % 10

    def form(onednn, memory_format):
        model = (Vit(side, *sizes) if kind == "vit" else Cnn(*sizes)).to(memory_format=memory_format)
        step = training(model, images.to(memory_format=memory_format), labels)

        def run():
            torch.backends.mkldnn.enabled = onednn
            step()

        return run

    if kind == "vit":
        return [form(onednn, torch.contiguous_format) for onednn in (False, True)]
    return [form(True, memory_format) for memory_format in (torch.contiguous_format, torch.channels_last)]


class Transcriber(nn.Module):
    """A Transformer over vectors whose attention sees a window, without positions, trained by CTC."""

    def __init__(self, seq, width, d_model, n_heads, n_layers, d_ff, vocab, window):
        super().__init__()
        self.input, self.first = nn.Linear(width, d_model), nn.LayerNorm(d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads, d_ff, causal=False) for _ in range(n_layers))
        self.norm, self.head = nn.LayerNorm(d_model), nn.Linear(d_model, vocab)
        distance = torch.arange(seq)[:, None] - torch.arange(seq)
        for block in self.blocks:
            block.mask = distance.abs() <= window

    def forward(self, x, texts):
        x = self.first(self.input(x))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).transpose(0, 1)
        return ctc_losses(logits, texts).sum() / texts.numel()


def ctc_losses(logits, texts):
    """Returns the loss of each text; `logits` `[frames, batch, vocab]`, `texts` `[batch, labels]`."""
    frames, batch, _ = logits.shape
    lengths = [torch.full((batch,), length) for length in (frames, texts.shape[1])]
    return F.ctc_loss(logits.log_softmax(-1), texts, *lengths, reduction="none")


def ctc_texts(batch, vocab, labels):
    """Returns texts without equal neighbours."""
    return (torch.arange(batch)[:, None] + torch.arange(labels)) % (vocab - 1) + 1


def ctc(batch, frames, vocab, labels):
    logits = torch.randn(frames, batch, vocab, requires_grad=True)
    texts, gradient = ctc_texts(batch, vocab, labels), torch.ones(batch)
    return [lambda: torch.autograd.grad(ctc_losses(logits, texts), logits, gradient)]


def train_speech(batch, seq, width, d_model, n_heads, n_layers, d_ff, vocab, labels, window):
    """Returns the step with and without oneDNN."""
    x, texts = torch.rand(batch, seq, width) * 2 - 1, ctc_texts(batch, vocab, labels)

    def form(onednn):
        step = training(Transcriber(seq, width, d_model, n_heads, n_layers, d_ff, vocab, window), x, texts)

        def run():
            torch.backends.mkldnn.enabled = onednn
            step()

        return run

    return [form(False), form(True)]


class Handwriting(nn.Module):
    """The synthesis network of Graves (2013): the window of a step is an input of the first layer at the next one."""

    def __init__(self, characters, d_hidden, n_layers, window, components):
        super().__init__()
        self.characters, self.components = characters, components
        self.first = nn.LSTMCell(3 + characters, d_hidden)
        self.window = nn.Linear(d_hidden, 3 * window)
        self.upper = nn.ModuleList(nn.LSTM(3 + characters + d_hidden, d_hidden, batch_first=True) for _ in range(n_layers - 1))
        self.output = nn.Linear(n_layers * d_hidden, 6 * components + 1)
        with torch.no_grad():
            self.window.bias[2 * window :] = math.log(0.05)

    def forward(self, inputs, targets):
        points, texts = inputs
        (batch, seq, _), length = points.shape, texts.shape[1]
        text = F.one_hot(texts, self.characters).float()
        places = torch.arange(1, length + 1, dtype=torch.float32)[:, None]
        state, window, position = None, points.new_zeros(batch, self.characters), 0.0
        hidden, windows = [], []
        for point in points.unbind(1):
            state = self.first(torch.cat([point, window], 1), state)
            height, sharpness, move = self.window(state[0]).exp().chunk(3, 1)
            position = position + move
            # [batch, length, components]
            distance = position[:, None] - places
            weights = (height[:, None] * torch.exp(-sharpness[:, None] * distance * distance)).sum(2)
            window = torch.bmm(weights[:, None], text).squeeze(1)
            hidden.append(state[0])
            windows.append(window)
        states, windows = [torch.stack(hidden, 1)], torch.stack(windows, 1)
        for layer in self.upper:
            states.append(layer(torch.cat([points, windows, states[-1]], 2))[0])
        raw = self.output(torch.cat(states, 2))
        end, weight, mx, my, sx, sy, correlation = raw.split([1, *[self.components] * 6], 2)
        u, v = (targets[..., :1] - mx) * torch.exp(-sx), (targets[..., 1:2] - my) * torch.exp(-sy)
        rho = torch.tanh(correlation)
        rest = 1 - rho * rho
        exponent = (u * u + v * v - 2 * rho * u * v) / (2 * rest)
        movement = F.log_softmax(weight, 2) - sx - sy - 0.5 * torch.log(rest) - exponent - math.log(2 * math.pi)
        ends = F.binary_cross_entropy_with_logits(end, targets[..., 2:], reduction="sum")
        return (ends - torch.logsumexp(movement, 2).sum()) / (batch * seq)


def train_writing(batch, seq, characters, length, d_hidden, n_layers, window, components):
    """Returns the step with and without oneDNN."""
    points = torch.rand(batch, seq + 1, 3) * 2 - 1
    points[..., 2] = (points[..., 2] > 0.8).float()
    texts = torch.randint(characters, (batch, length))

    def form(onednn):
        model = Handwriting(characters, d_hidden, n_layers, window, components)
        step = training(model, (points[:, :-1].contiguous(), texts), points[:, 1:].contiguous())

        def run():
            torch.backends.mkldnn.enabled = onednn
            step()

        return run

    return [form(False), form(True)]


def training(model, inputs, targets, bf16=False):
    """Returns a training step of the model on one batch, with `bf16` under PyTorch's automatic mixed precision."""
    parameters = list(model.parameters())
    # Times of the large and the tiny model: fused 645 and 3.6, foreach 655 and 4.7, one by one 667 and 5.5.
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    if os.environ.get("REGARD_PEER_COMPILE"):
        model = torch.compile(model)

    def step():
        optimizer.zero_grad(set_to_none=True)  # zeroing in place takes 652 and 4.1
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = model(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step


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


def linear_attention(direction, batch, heads, seq, d_head):
    """Returns the sums over all keys; causal ones as a masked product of all pairs, and in chunks with a running state."""
    leaves = [torch.randn(batch, heads, seq, d_head, requires_grad=True) for _ in range(3)]
    gradient = torch.randn(batch, heads, seq, d_head)

    def features():
        q, k, v = leaves
        return F.elu(q) + 1, F.elu(k) + 1, v

    def full():
        q, k, v = features()
        return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(-2).unsqueeze(-1))

    def masked():
        q, k, v = features()
        scores = (q @ k.transpose(-1, -2)).tril()
        return scores @ v / scores.sum(-1, keepdim=True)

    def chunked(size):
        q, k, v = (x.unflatten(2, (-1, size)) for x in features())
        # The state before each chunk: the sum of the products of the chunks before it.
        states, sums = k.transpose(-1, -2) @ v, k.sum(-2)
        states, sums = states.cumsum(2) - states, sums.cumsum(2) - sums
        scores = (q @ k.transpose(-1, -2)).tril()
        numerator = scores @ v + q @ states
        denominator = scores.sum(-1, keepdim=True) + q @ sums.unsqueeze(-1)
        return (numerator / denominator).flatten(2, 3)

    forms = [full] if direction == "full" else [masked] + [
        lambda size=size: chunked(size) for size in (32, 64, 128) if seq % size == 0
    ]
    return [lambda form=form: torch.autograd.grad(form(), leaves, gradient) for form in forms]


def embedding(vocab, width, tokens):
    table, ids = torch.randn(vocab, width, requires_grad=True), torch.randint(vocab, (tokens,))
    gradient = torch.randn(tokens, width)
    return [lambda: torch.autograd.grad(F.embedding(ids, table), table, gradient)]


def gru(batch, seq, d_in, d_hidden):
    layer = nn.GRU(d_in, d_hidden)
    x = torch.randn(seq, batch, d_in, requires_grad=True)
    gradient = torch.randn(seq, batch, d_hidden)
    leaves = [x, *layer.parameters()]
    return with_and_without_onednn(lambda: lambda: torch.autograd.grad(layer(x)[0], leaves, gradient))


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


def group_norm(batch, channels, side, groups, phase):
    """Returns group norm and ReLU on images in PyTorch's usual order and with channels last, of which the faster counts."""

    def form(memory_format):
        layer = nn.GroupNorm(groups, channels)
        x = torch.randn(batch, channels, side, side).to(memory_format=memory_format).requires_grad_(phase != "forward")
        if phase == "forward":

            def forward():
                with torch.no_grad():
                    return F.relu(layer(x), inplace=True)

            return forward
        leaves = [x, *layer.parameters()]
        out = F.relu(layer(x), inplace=True)
        gradient = torch.randn_like(out)
        if phase == "backward":
            return lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True)
        return lambda: torch.autograd.grad(F.relu(layer(x), inplace=True), leaves, gradient)

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
    named = kind in ("attention", "linear_attention", "icl", "step") or parts[0] in ("vit", "cnn", "gat", "speech", "write", "bf16")
    sizes = [int(n) for n in parts[1 if named else 0].split("x")]
    torch.backends.mkldnn.enabled = True
    if kind == "train" and parts[0] == "speech":
        return train_speech(*sizes)
    if kind == "train":
        if parts[0] == "gat":
            return graph_work(*sizes, trains=True)
        if parts[0] == "write":
            return train_writing(*sizes)
        if parts[0] == "bf16":
            return train(*sizes, bf16=True)
        return train_image(parts[0], *sizes) if named else train(*sizes)
    if kind == "evaluate":
        return graph_work(*sizes, trains=False) if parts[0] == "gat" else evaluate(*sizes)
    if kind == "decode":
        return decode(*sizes)
    if kind == "step":
        return recurrent_step(parts[0], *sizes)
    if kind == "linear_attention":
        return linear_attention(parts[0], *sizes)
    if kind == "embedding":
        return embedding(*sizes)
    if kind == "gru":
        return gru(*sizes)
    if kind == "ctc":
        return ctc(*sizes)
    if kind == "lstm":
        return lstm(*sizes)
    if kind == "attention":
        return attention(parts[0], *sizes, phase=parts[2])
    if kind == "convolution":
        return convolution(*sizes, phase=parts[1])
    if kind == "group_norm":
        return group_norm(*sizes, phase=parts[1])
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
