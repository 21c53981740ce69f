"""Makes the reference file of the classifiers of images: residual networks of convolutions with and without attention blocks,
Vision Transformers and a multilayer perceptron.

A weight is `case/weight/NAME`, its gradient `case/grad/NAME`, with PyTorch's names; `grad_x` is the gradient of the images. The
loss is the cross-entropy with label smoothing.
"""

import torch
import torch.nn.functional as F
from torch import nn

from reference import File, single
from text_models import attention_score, keep_loss
from transformer import fill, sinusoids


class Normed(nn.Module):
    """A convolution and its group norm."""

    def __init__(self, d_in, d_out, kernel, stride, groups):
        super().__init__()
        self.conv = nn.Conv2d(d_in, d_out, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.GroupNorm(groups, d_out)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, d_in, d_out, stride, groups):
        super().__init__()
        self.first, self.second = Normed(d_in, d_out, 3, stride, groups), Normed(d_out, d_out, 3, 1, groups)
        self.shortcut = Normed(d_in, d_out, 1, stride, groups) if d_in != d_out or stride != 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class Spatial(nn.Module):
    def __init__(self, channels, d_key, d_value):
        super().__init__()
        self.query, self.key = nn.Conv2d(channels, d_key, 1), nn.Conv2d(channels, d_key, 1)
        self.value, self.output = nn.Conv2d(channels, d_value, 1), nn.Conv2d(d_value, channels, 1)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        q, k, v = (part(x).flatten(2) for part in (self.query, self.key, self.value))
        scale = single(1 / q.shape[1] ** 0.5)
        weights = (torch.einsum("bci,bcj->bij", q, k) * scale).softmax(-1)
        attended = torch.einsum("bij,bcj->bci", weights, v)
        return self.gate * self.output(attended.unflatten(2, x.shape[2:])) + x


class Channel(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale, self.gate = scale, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        rows = x.flatten(2)
        weights = (rows @ rows.transpose(1, 2) * self.scale).softmax(-1)
        return self.gate * (weights @ rows).view_as(x) + x


class Cnn(nn.Module):
    def __init__(self, in_channels, channels, blocks, groups, attention, outputs):
        super().__init__()
        self.stem, d_in, stages = Normed(in_channels, channels[0], 3, 1, groups), channels[0], []
        for n, d in enumerate(channels):
            parts = [Block(d_in if b == 0 else d, d, 2 if n and b == 0 else 1, groups) for b in range(blocks)]
            stage = nn.ModuleDict({"blocks": nn.Sequential(*parts)})
            if attention and n:
                stage["spatial"], stage["channel"] = Spatial(d, max(d // 8, 1), d // 2), Channel(single(0.1))
            stages.append(stage)
            d_in = d
        self.stages, self.output = nn.ModuleList(stages), nn.Linear(d_in, outputs)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for stage in self.stages:
            for part in stage.values():
                x = part(x)
        return self.output(x.mean((2, 3)))


class Halved(nn.Module):
    """A convolution that halves height and width, and a ReLU."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.conv = nn.Conv2d(d_in, d_out, 3, 2, 1)

    def forward(self, x):
        return F.relu(self.conv(x))


class Vit(nn.Module):
    """Pre-norm blocks over patches, which a convolution with the stride of a patch embeds, or several with stride 2 before it."""

    def __init__(self, in_channels, patch, tokens, pooling, outputs, stem=()):
        super().__init__()
        d_model, self.pooling = 8, pooling
        self.stem = nn.Sequential(*(Halved(a, b) for a, b in zip((in_channels, *stem), stem)))
        self.embedding = nn.Conv2d(stem[-1] if stem else in_channels, d_model, patch, patch)
        if pooling == "class_token":
            self.class_token = nn.Parameter(torch.zeros(1, d_model))
        if pooling == "attention":
            self.score = attention_score(d_model, d_model)
        self.position = nn.Parameter(torch.zeros(tokens, d_model)) if pooling != "mean" else None
        layer = lambda: nn.TransformerEncoderLayer(d_model, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True)  # noqa: E731
        self.blocks, self.norm = nn.ModuleList(layer() for _ in range(2)), nn.LayerNorm(d_model)
        self.output = nn.Linear(d_model, outputs)

    def forward(self, x):
        x = self.embedding(self.stem(x)).flatten(2).transpose(1, 2)
        if self.pooling == "class_token":
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], 1)
        x = x + (sinusoids(x.shape[1], 8) if self.position is None else self.position)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if self.pooling == "attention":
            x = (self.score["query"](torch.tanh(self.score["hidden"](x))).softmax(1) * x).sum(1)
        else:
            x = x[:, 0] if self.pooling == "class_token" else x.mean(1)
        return self.output(x)


def image_models():
    file = File("image_models")

    def add(name, module, *shape):
        case = file.case(name, image=shape[1:])
        x, labels = case.leaf("x", *shape), case.integers(3, shape[0])
        logits = fill(case, module)(x)
        keep_loss(case, module, logits, F.cross_entropy(logits, labels, label_smoothing=0.1), labels=labels)
        case.keep(grad_x=x.grad)

    add("cnn", Cnn(2, [4, 8], 2, 2, False, 3), 3, 2, 7, 5)
    add("attention_cnn", Cnn(1, [4, 8], 1, 2, True, 3), 2, 1, 6, 8)
    add("class_token", Vit(2, 2, 7, "class_token", 3), 3, 2, 6, 4)
    add("mean", Vit(1, 3, 4, "mean", 3), 2, 1, 6, 6)
    add("attention", Vit(1, 2, 6, "attention", 3), 2, 1, 4, 6)
    add("convolutions", Vit(2, 1, 6, "mean", 3, (4, 8)), 2, 2, 8, 12)
    dnn = nn.Sequential(nn.Flatten(), nn.Linear(24, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    add("dnn", dnn, 3, 2, 3, 4)
    return file


if __name__ == "__main__":
    print(f"{image_models().save():7d}  in all")
