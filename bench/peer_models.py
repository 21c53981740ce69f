"""PyTorch's models for the training comparisons, an encoder-decoder Transformer and a GPT, with their optimiser.

A description is JSON with two parts. Every key is optional; unknown keys are refused:

    {"model": {"vocab", "target_vocab", "n_layers", "n_decoder_layers", "d_model", "n_heads", "d_ff", "activation",
               "norm_place", "bias", "epsilon", "position", "embedding_scale", "output_weights", "output_bias",
               "dropout", "attention_dropout", "feed_forward_dropout"},
     "training": {"learning_rate", "least_learning_rate", "warmup", "schedule", "steps", "beta1", "beta2", "epsilon",
                  "weight_decay", "label_smoothing", "clip"}}

`model` has the keys and defaults of Regard's description of a Transformer; settings that this side lacks (RoPE, gates, …)
are refused unless they have their default. `position` is "none", "sinusoidal", or {"kind": "learned", "max_length": n}.
Initial weights are as in Regard: Xavier, zero biases, embeddings normal with deviation 1/√d_model.

`training` is AdamW with decay on matrices only. After a linear warm-up the rate falls by "inverse_square_root" (of the
step, so that the end need not be known) or "cosine" (to `least_learning_rate` at `steps`), or stays "constant". `clip` is
the largest norm of all gradients, 0 for no limit.

PyTorch computes in eager float32, in the forms that are fastest in peer_torch.py: one product for queries, keys and
values, its fused attention and AdamW, and logits only where there is a target.
"""

import json
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, UNKNOWN, START, END = 0, 1, 2, 3

MODEL = {
    "vocab": 37000, "target_vocab": None, "n_layers": 6, "n_decoder_layers": None, "d_model": 512, "n_heads": 8,
    "d_ff": 2048, "activation": "relu", "norm_place": "post", "bias": "learned", "epsilon": 1e-5,
    "position": "sinusoidal", "embedding_scale": "root", "output_weights": "own", "output_bias": "learned",
    "dropout": 0.1, "attention_dropout": 0.0, "feed_forward_dropout": 0.0,
}  # fmt: skip
# Keys of Regard's description that must have these values if they are given.
FIXED = {
    "kv_heads": (None,), "d_head": (None,), "gate": ("none",), "norm": ("layer",), "sight": ("full", {"kind": "full"}),
    "memory": ("last",), "attention": ("softmax",), "embedding_norm": ("none",), "output_scale": ("none",), "qkv_bias": (None,),
    "query_key_norm": ("none",), "score_scale": ("root",), "token_types": (0,),
}  # fmt: skip
TRAINING = {
    "learning_rate": 1e-3, "least_learning_rate": 0.0, "warmup": 400, "schedule": "inverse_square_root", "steps": None,
    "beta1": 0.9, "beta2": 0.98, "epsilon": 1e-8, "weight_decay": 0.0, "label_smoothing": 0.1, "clip": 1.0,
}  # fmt: skip
CHOICES = {
    "activation": ("relu", "gelu", "gelu_tanh"), "norm_place": ("pre", "post"), "bias": ("learned", "none"),
    "embedding_scale": ("root", "none"), "output_weights": ("own", "embedding"), "output_bias": ("learned", "none"),
    "schedule": ("inverse_square_root", "cosine", "constant"),
}  # fmt: skip


class Refused(Exception):
    """An input that cannot be used; only the message is printed."""


def use_threads(threads, seed=0):
    torch.set_num_threads(threads)
    torch.manual_seed(seed)


def described(document, model=None, training=None):
    """Returns the two parts of a description, completed by `model` and `training` and then by the defaults."""
    for part in document.keys() - {"model", "training"}:
        raise Refused(f"the description has a part {part!r}; its parts are model and training")
    given = document.get("model", {})
    for key, allowed in FIXED.items():
        if key in given and given[key] not in allowed:
            raise Refused(f"model.{key} is {given[key]!r}; PyTorch's side has {allowed[0]!r} only")
    parts = []
    for name, defaults, known in (("model", MODEL, model), ("training", TRAINING, training)):
        values = {key: value for key, value in document.get(name, {}).items() if key not in FIXED or name != "model"}
        for key in values.keys() - defaults.keys():
            raise Refused(f"{name}.{key} is unknown; there are {', '.join(sorted(defaults))}")
        values = {**defaults, **(known or {}), **values}
        for key in CHOICES.keys() & values.keys():
            if values[key] not in CHOICES[key]:
                raise Refused(f"{name}.{key} is {values[key]!r}, not one of {', '.join(CHOICES[key])}")
        parts.append(values)
    if parts[1]["schedule"] == "cosine" and not parts[1]["steps"]:
        raise Refused("training.steps is missing, which the cosine schedule needs")
    return parts


def read_description(path, **known):
    if path is None:
        return described({}, **known)
    try:
        return described(json.loads(path.read_text(encoding="utf-8")), **known)
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise Refused(f"{path} is not JSON: {error}") from None


def linear(d_in, d_out, bias="learned", pieces=1):
    """Initialises `pieces` matrices side by side, each by its own size."""
    layer = nn.Linear(d_in, d_out * pieces, bias=bias == "learned")
    for piece in layer.weight.chunk(pieces):
        nn.init.xavier_uniform_(piece)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def embedding(vocab, d_model):
    table = nn.Embedding(vocab, d_model)
    nn.init.normal_(table.weight, std=d_model**-0.5)
    return table


class Attention(nn.Module):
    def __init__(self, model, over_source=False):
        super().__init__()
        d, bias = model["d_model"], model["bias"]
        self.n_heads, self.dropout = model["n_heads"], model["attention_dropout"]
        self.over_source = over_source
        if over_source:
            self.query, self.key_value = linear(d, d, bias), linear(d, d, bias, 2)
        else:
            self.qkv = linear(d, d, bias, 3)
        self.out = linear(d, d, bias)

    def split(self, x, parts):
        batch, seq, _ = x.shape
        return x.view(batch, seq, parts, self.n_heads, -1).permute(2, 0, 3, 1, 4)

    def source(self, memory):
        """Returns keys and values of a source, for all steps of a decoder."""
        return tuple(self.split(self.key_value(memory), 2))

    def forward(self, x, source=None, mask=None, causal=False, cache=None):
        if self.over_source:
            (q,), (k, v) = self.split(self.query(x), 1), source
        else:
            q, k, v = self.split(self.qkv(x), 3)
            if cache is not None:
                if cache:
                    k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
                cache[:] = [k, v]
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """A block of self-attention, attention over a source (in a decoder) and feed-forward part, pre-norm or post-norm."""

    def __init__(self, model, decoder=False, norm_bias=True):
        super().__init__()
        d = model["d_model"]
        self.attention = Attention(model)
        self.cross = Attention(model, over_source=True) if decoder else None
        self.up, self.down = linear(d, model["d_ff"], model["bias"]), linear(model["d_ff"], d, model["bias"])
        norms = 3 if decoder else 2
        self.norms = nn.ModuleList(nn.LayerNorm(d, model["epsilon"], bias=norm_bias) for _ in range(norms))
        self.pre, self.dropout, self.hidden_dropout = (
            model["norm_place"] == "pre", model["dropout"], model["feed_forward_dropout"],
        )  # fmt: skip
        self.activation = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}[
            model["activation"]
        ]

    def feed_forward(self, x):
        x = self.activation(self.up(x))
        return self.down(dropped(x, self.hidden_dropout, self.training))

    def add(self, x, norm, part):
        if self.pre:
            return x + dropped(part(norm(x)), self.dropout, self.training)
        return norm(x + dropped(part(x), self.dropout, self.training))

    def forward(self, x, mask=None, causal=False, source=None, source_mask=None, cache=None):
        x = self.add(x, self.norms[0], lambda x: self.attention(x, mask=mask, causal=causal, cache=cache))
        if self.cross is not None:
            x = self.add(x, self.norms[1], lambda x: self.cross(x, source, source_mask))
        return self.add(x, self.norms[-1], self.feed_forward)


def dropped(x, probability, training):
    return F.dropout(x, probability) if training and probability > 0 else x


class Tokens(nn.Module):
    """Embeds tokens: vectors times their scale, plus positions."""

    def __init__(self, model, vocab):
        super().__init__()
        self.d_model, self.dropout = model["d_model"], model["dropout"]
        self.table = embedding(vocab, self.d_model)
        self.scale = math.sqrt(self.d_model) if model["embedding_scale"] == "root" else 1.0
        position = model["position"]
        position = {"kind": position} if isinstance(position, str) else position
        self.kind = position["kind"]
        if self.kind == "learned":
            self.learned = nn.Embedding(position.get("max_length", 512), self.d_model)
            nn.init.normal_(self.learned.weight, std=0.02)
        elif self.kind == "sinusoidal":
            self.register_buffer("sinusoids", sinusoids(1024, self.d_model), persistent=False)
        elif self.kind != "none":
            raise Refused(f"model.position is {self.kind!r}; PyTorch's side has none, sinusoidal and learned")

    def positions(self, first, last):
        table = self.learned.weight if self.kind == "learned" else self.sinusoids
        if last > len(table):
            raise Refused(f"a sequence of {last} tokens, where positions go up to {len(table)}")
        return table[first:last]

    def forward(self, ids, offset=0):
        x = self.table(ids)
        if self.scale != 1.0:
            x = x * self.scale
        if self.kind != "none":
            x = x + self.positions(offset, offset + ids.shape[1])
        return dropped(x, self.dropout, self.training)


def sinusoids(seq, d_model):
    angles = torch.arange(seq)[:, None] / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :d_model].float()


def last_norm(model, norm_bias=True):
    pre = model["norm_place"] == "pre"
    return nn.LayerNorm(model["d_model"], model["epsilon"], bias=norm_bias) if pre else nn.Identity()


class Output(nn.Module):
    def __init__(self, model, tokens, vocab):
        super().__init__()
        self.linear = linear(model["d_model"], vocab, model["output_bias"])
        if model["output_weights"] == "embedding":
            self.linear.weight = tokens.table.weight

    def forward(self, x):
        return self.linear(x)


class Translator(nn.Module):
    """A translator from source ids to target ids; rows are padded at the end."""

    def __init__(self, model):
        super().__init__()
        shared = model["target_vocab"] is None
        target_vocab = model["vocab"] if shared else model["target_vocab"]
        self.source = Tokens(model, model["vocab"])
        self.target = self.source if shared else Tokens(model, target_vocab)
        self.encoder = nn.ModuleList(Block(model) for _ in range(model["n_layers"]))
        depth = model["n_decoder_layers"] or model["n_layers"]
        self.decoder = nn.ModuleList(Block(model, decoder=True) for _ in range(depth))
        self.encoder_norm, self.decoder_norm = last_norm(model), last_norm(model)
        self.output = Output(model, self.target, target_vocab)

    def encode(self, ids):
        """Returns keys and values for each block of the decoder, and the mask over the source if it has padding."""
        hidden = ids == PAD
        mask = None
        if hidden.any():
            mask = torch.zeros(ids.shape).masked_fill(hidden, float("-inf"))[:, None, None]
        x = self.source(ids)
        for block in self.encoder:
            x = block(x, mask=mask)
        x = self.encoder_norm(x)
        return [block.cross.source(x) for block in self.decoder], mask

    def decode(self, encoded, ids, caches=None):
        """Returns the state of each target token, or of one further token with `caches`, one for each block."""
        sources, mask = encoded
        offset = caches[0][0].shape[2] if caches and caches[0] else 0
        y = self.target(ids, offset)
        for i, block in enumerate(self.decoder):
            cache = caches[i] if caches is not None else None
            y = block(y, causal=caches is None, source=sources[i], source_mask=mask, cache=cache)
        return self.decoder_norm(y)

    def loss(self, source, target, smoothing):
        """Returns the mean loss over the tokens after the first of each target row."""
        inputs, targets = target[:, :-1], target[:, 1:].reshape(-1)
        states = self.decode(self.encode(source), inputs).flatten(0, 1)
        kept = targets != PAD
        if not kept.all():
            states, targets = states[kept], targets[kept]
        return F.cross_entropy(self.output(states), targets, label_smoothing=smoothing)


class Gpt(nn.Module):
    """A causal language model with the initial weights of nanoGPT; without biases its norms have none either."""

    def __init__(self, model):
        super().__init__()
        norm_bias = model["bias"] == "learned"
        self.tokens = Tokens(model, model["vocab"])
        self.blocks = nn.ModuleList(Block(model, norm_bias=norm_bias) for _ in range(model["n_layers"]))
        self.norm = last_norm(model, norm_bias)
        self.output = Output(model, self.tokens, model["vocab"])
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * model["n_layers"]) if last else 0.02)

    def loss(self, inputs, targets, reduction="mean"):
        x = self.tokens(inputs)
        for block in self.blocks:
            x = block(x, causal=True)
        logits = self.output(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.reshape(-1), reduction=reduction)


# nanoGPT's CPU setting: 4 layers, 4 heads, 128 features, no biases, tied weights, no dropout.
NANO_GPT = {
    "n_layers": 4, "n_heads": 4, "d_model": 128, "d_ff": 512, "activation": "gelu", "norm_place": "pre", "bias": "none",
    "embedding_scale": "none", "output_weights": "embedding", "output_bias": "none", "dropout": 0.0,
}  # fmt: skip
NANO_GPT_TRAINING = {
    "learning_rate": 1e-3, "least_learning_rate": 1e-4, "warmup": 100, "schedule": "cosine", "steps": 2000,
    "beta2": 0.99, "weight_decay": 0.1, "label_smoothing": 0.0,
}  # fmt: skip


class Trainer:
    """Minimises a loss with AdamW."""

    def __init__(self, model, training):
        self.parameters, self.training, self.steps = list(model.parameters()), training, 0
        matrices = [weight for weight in self.parameters if weight.dim() >= 2]
        others = [weight for weight in self.parameters if weight.dim() < 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": training["weight_decay"]},
                {"params": others, "weight_decay": 0.0},
            ],
            betas=(training["beta1"], training["beta2"]), eps=training["epsilon"], fused=True,
        )  # fmt: skip

    def rate(self):
        top, least, warmup = (self.training[key] for key in ("learning_rate", "least_learning_rate", "warmup"))
        kind, step = self.training["schedule"], self.steps
        if kind == "cosine":
            if step < warmup:
                return top * (step + 1) / (warmup + 1)
            done = min((step - warmup) / max(self.training["steps"] - warmup, 1), 1.0)
            return least + 0.5 * (1 + math.cos(math.pi * done)) * (top - least)
        if step < warmup:
            return top * (step + 1) / warmup
        return top * math.sqrt(max(warmup, 1) / (step + 1)) if kind == "inverse_square_root" else top

    def step(self, loss):
        """Takes one step; `loss` is a function, so that the graph is created and freed here."""
        rate = self.rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        if self.training["clip"] > 0:
            nn.utils.clip_grad_norm_(self.parameters, self.training["clip"])
        self.optimizer.step()
        self.steps += 1
        return value.detach()


def padded(rows):
    """Returns rows of ids as one matrix, padded at the end."""
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def read_batches(path):
    """Reads a batch from each line, `{"source": [[ids]], "target": [[ids]]}`; train_translate.py describes the rows."""
    batches = []
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    batch = json.loads(line)
                    batches.append((padded(batch["source"]), padded(batch["target"])))
                except (ValueError, KeyError, TypeError):
                    raise Refused(f'{path}, line {number}: not {{"source": [[ids]], "target": [[ids]]}}') from None
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from None
    if not batches:
        raise Refused(f"{path} has no batch")
    return batches


def read_characters(path):
    """Returns a text as ids of its characters, numbered in order, and the number of distinct characters."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {path}: {error}") from None
    ids = {character: i for i, character in enumerate(sorted(set(text)))}
    return torch.tensor([ids[character] for character in text]), len(ids)


def random_blocks(ids, batch, block, generator):
    """Returns `batch` stretches of `block` characters, and the same stretches one character later."""
    at = torch.randint(len(ids) - block, (batch, 1), generator=generator) + torch.arange(block + 1)
    taken = ids[at]
    return taken[:, :-1].contiguous(), taken[:, 1:].contiguous()


def default_threads():
    return int(os.environ.get("REGARD_THREADS", "2"))
