"""Makes the reference file of the captioners: a residual network of convolutions whose features, with learned positions, a
recurrent network with attention or the decoder of a Transformer describes.

A weight is `case/weight/NAME`, its gradient `case/grad/NAME`, with PyTorch's names; `grad_x` is the gradient of the pictures. The
loss is the mean cross-entropy with label smoothing 0.1; a target of -100 is ignored. PyTorch's second bias of the LSTM is zero,
so that the first is their sum.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from image_models import Cnn, Normed
from recurrent_layers import KINDS
from recurrent_translator import fill, finish, score
from reference import File
from transformer import sinusoids

VOCAB, D_MODEL, D_HIDDEN = 6, 4, 8
# Pictures of 8 × 11 pixels, in which the network has 4 × 6 positions.
SHAPE = [2, 8, 11]


class Picture(Cnn):
    """The features of the cells, `[batch, cells, D_HIDDEN]`: a linear layer over squares of the last stage, and places.
    Without norms, the convolutions have biases."""

    def __init__(self, cell, norms):
        super().__init__(SHAPE[0], [4, 8], 1, 2, False, 1)
        for part in [] if norms else [part for part in self.modules() if isinstance(part, Normed)]:
            old = part.conv
            part.conv = nn.Conv2d(old.in_channels, old.out_channels, old.kernel_size, old.stride, old.padding)
            part.norm = nn.Identity()
        self.output = nn.Conv2d(8, D_HIDDEN, cell, cell)
        self.rows = nn.Parameter(torch.zeros(4 // cell, D_HIDDEN))
        self.columns = nn.Parameter(torch.zeros(6 // cell, D_HIDDEN))

    def features(self, x):
        x = F.relu(self.stem(x))
        for stage in self.stages:
            x = stage["blocks"](x)
        places = (self.rows[:, None] + self.columns[None]).flatten(0, 1) * math.sqrt(D_HIDDEN)
        return self.output(x).flatten(2).transpose(1, 2) + places


def examples(case):
    x, inputs, targets = case.leaf("x", 2, *SHAPE), case.integers(VOCAB, 2, 3), case.integers(VOCAB, 2, 3)
    targets[1, 2] = -100
    return x, inputs, targets


def keep(case, model, cell, x, logits, targets, **kept):
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)
    finish(case, model, cell, targets=targets, logits=logits, loss=loss, **kept)
    case.keep(grad_x=x.grad)


def recurrent(file, kind, attend):
    case = file.case(f"lstm_{kind}_{attend}", attention=kind, attend=attend)
    before = attend == "before"
    model = Picture(2, norms=False)
    parts = nn.ModuleDict({
        "embedding": nn.Embedding(VOCAB, D_MODEL), "logits": nn.Linear(D_MODEL, VOCAB),
        "decoder": KINDS["lstm"][0](D_MODEL + before * D_HIDDEN, D_HIDDEN, batch_first=True),
        "readout": nn.Linear(2 * D_HIDDEN + D_MODEL, D_MODEL),
        "query": nn.Linear(D_HIDDEN, D_HIDDEN, bias=kind == "additive"),
    })  # fmt: skip
    if kind == "additive":
        parts["key"], parts["vector"] = nn.Linear(D_HIDDEN, D_HIDDEN, bias=False), nn.Linear(D_HIDDEN, 1, bias=False)
    for name, part in parts.items():
        model.add_module(name, part)
    fill(case, model, "lstm")
    x, inputs, targets = examples(case)
    cells = model.features(x)
    words = model.embedding(inputs) * math.sqrt(D_MODEL)
    state = tuple(torch.zeros(1, 2, D_HIDDEN) for _ in range(2))

    def look(query):
        weights = score(parts, kind, query, cells).softmax(1)
        return weights, (weights[:, :, None] * cells).sum(1)

    maps, features = [], []
    for t in range(3):
        word = words[:, t]
        if before:
            weights, context = look(state[0][-1])
        _, state = model.decoder(torch.cat([word, context] if before else [word], 1)[:, None], state)
        if not before:
            weights, context = look(state[0][-1])
        maps.append(weights)
        features.append(torch.tanh(model.readout(torch.cat([state[0][-1], context, word], 1))))
    logits = model.logits(torch.stack(features, 1))
    keep(case, model, "lstm", x, logits, targets, inputs=inputs, maps=torch.stack(maps, 1))


def transformer(file):
    case = file.case("transformer")
    model = Picture(1, norms=True)
    model.embedding, model.logits = nn.Embedding(VOCAB, D_HIDDEN), nn.Linear(D_HIDDEN, VOCAB)
    layer = lambda: nn.TransformerDecoderLayer(D_HIDDEN, 2, 12, 0.0, batch_first=True, norm_first=True)  # noqa: E731
    model.decoder, model.norm = nn.ModuleList(layer() for _ in range(2)), nn.LayerNorm(D_HIDDEN)
    fill(case, model, "gru")
    x, inputs, targets = examples(case)
    y = model.embedding(inputs) * math.sqrt(D_HIDDEN) + sinusoids(3, D_HIDDEN)
    cells, mask = model.features(x), torch.ones(3, 3, dtype=torch.bool).triu(1)
    for block in model.decoder:
        y = block(y, cells, tgt_mask=mask)
    keep(case, model, "gru", x, model.logits(model.norm(y)), targets, inputs=inputs)


def captioners():
    file = File("captioner")
    recurrent(file, "general", "after")
    recurrent(file, "additive", "before")
    transformer(file)
    return file


if __name__ == "__main__":
    print(f"{captioners().save():7d}  in all")
