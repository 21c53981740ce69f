"""Makes the reference file of the classifiers of nodes: graph attention with static and dynamic scores, graph convolution and a
multilayer perceptron, also with propagated logits, on a small graph with sparse features.

A weight is `case/weight/NAME`, its gradient `case/grad/NAME`, with PyTorch's names. `edges` are pairs from and to, with self-loops;
`targets` are the nodes that the loss is taken over, the cross-entropy with label smoothing.
"""

import torch
import torch.nn.functional as F
from torch import nn

from reference import File, single
from text_models import keep_loss
from transformer import fill

SLOPE = single(0.2)
TELEPORT = single(0.2)


def softmax_by_target(scores, targets, nodes):
    """Returns the softmax of scores `[edges, heads]` over the edges with the same target."""
    shape = (nodes, scores.shape[1])
    index = targets[:, None].expand_as(scores)
    highest = torch.full(shape, -torch.inf).scatter_reduce(0, index, scores.detach(), "amax")
    powers = (scores - highest[targets]).exp()
    return powers / torch.zeros(shape).index_add(0, targets, powers)[targets]


class Attention(nn.Module):
    def __init__(self, d_in, heads, d_head, join, dynamic):
        super().__init__()
        self.values = nn.Linear(d_in, heads * d_head, bias=False)
        self.source = nn.Parameter(torch.zeros(heads, d_head))
        self.target = nn.Linear(d_in, heads * d_head, bias=False) if dynamic else nn.Parameter(torch.zeros(heads, d_head))
        self.bias = nn.Parameter(torch.zeros(heads * d_head if join == "concat" else d_head))
        self.shape, self.join, self.dynamic = (heads, d_head), join, dynamic

    def forward(self, x, edges):
        nodes, (sources, targets) = len(x), edges
        h = self.values(x).unflatten(1, self.shape)
        if self.dynamic:
            sums = h[sources] + self.target(x).unflatten(1, self.shape)[targets]
            scores = (F.leaky_relu(sums, SLOPE) * self.source).sum(-1)
        else:
            scores = F.leaky_relu((h * self.source).sum(-1)[sources] + (h * self.target).sum(-1)[targets], SLOPE)
        weights = softmax_by_target(scores, targets, nodes)
        mixed = torch.zeros_like(h).index_add(0, targets, weights[..., None] * h[sources])
        return (mixed.flatten(1) if self.join == "concat" else mixed.mean(1)) + self.bias


class Convolution(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.values, self.bias = nn.Linear(d_in, d_out, bias=False), nn.Parameter(torch.zeros(d_out))

    def forward(self, x, edges):
        sources, targets = edges
        count = torch.zeros(len(x)).index_add(0, targets, torch.ones(len(targets)))
        seen = torch.zeros(len(x)).index_add(0, sources, torch.ones(len(sources)))
        weights = (seen[sources] * count[targets]).rsqrt()[:, None]
        return torch.zeros(len(x), len(self.bias)).index_add(0, targets, weights * self.values(x)[sources]) + self.bias


def adjacency(edges, nodes):
    """Returns the weights 1/√(d_i d_j) of graph convolution as a matrix, a row per target."""
    seen = torch.zeros(nodes, nodes)
    seen[edges[1], edges[0]] = 1
    return seen / (seen.sum(1)[:, None] * seen.sum(0)[None]).sqrt()


class Dense(nn.Linear):
    def forward(self, x, edges):
        return super().forward(x)


class Network(nn.Module):
    def __init__(self, layers, activation, rounds=0):
        super().__init__()
        self.layers, self.activation, self.rounds = nn.ModuleList(layers), activation, rounds

    def forward(self, x, edges):
        for layer in self.layers[:-1]:
            x = self.activation(layer(x, edges))
        h = z = self.layers[-1](x, edges)
        for _ in range(self.rounds):
            z = (1 - TELEPORT) * adjacency(edges, len(x)) @ z + TELEPORT * h
        return z


def graph_models():
    file, nodes, d_in, outputs = File("graph_models"), 9, 7, 3

    def gat(dynamic, rounds=0):
        return Network(
            [Attention(d_in, 2, 3, "concat", dynamic), Attention(6, 2, outputs, "mean", dynamic)], F.elu, rounds
        )

    networks = {
        "gat": gat(False),
        "gatv2": gat(True),
        "gcn": Network([Convolution(d_in, 6), Convolution(6, outputs)], F.relu),
        "dnn": Network([Dense(d_in, 6), Dense(6, outputs)], F.relu),
        "propagated_gat": gat(False, rounds=4),
        "propagated_dnn": Network([Dense(d_in, 6), Dense(6, outputs)], F.relu, rounds=4),
    }
    for name, network in networks.items():
        case = file.case(name)
        # About a third of the features, and of the edges in one direction; node 8 sees only itself.
        x = case.random(nodes, d_in) * (case.random(nodes, d_in) > 0.4)
        seen = (case.random(nodes, nodes) > 0.5) & (torch.arange(nodes)[None] != 8)
        edges = (seen | torch.eye(nodes, dtype=torch.bool)).nonzero().T
        targets, labels = torch.tensor([0, 3, 8, 5]), case.integers(outputs, 4)
        logits = fill(case, network)(x, edges)
        loss = F.cross_entropy(logits[targets], labels, label_smoothing=single(0.1))
        keep_loss(case, network, logits, loss, x=x, edges=edges, targets=targets, labels=labels)
    return file


if __name__ == "__main__":
    print(f"{graph_models().save():7d}  in all")
