"""Makes the reference files of multi-head attention, Transformer blocks and a whole translator, with PyTorch's modules.

A weight of a module is `case/weight/NAME`, its gradient `case/grad/NAME`, with PyTorch's names.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from reference import File


def fill(case, module, scale=0.3):
    """Sets random weights; those of norms differ from 1 and 0, so that their gradients are tested."""
    with torch.no_grad():
        for name, weight in module.named_parameters():
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            weight.copy_((centre + case.random(*weight.shape, scale=scale)).float())
    return module


def finish(case, module, **outputs):
    """Stores outputs, weights and all gradients of `sum(out * grad_out)`."""
    weights = dict(module.named_parameters())
    for name, weight in weights.items():
        case.leaves[f"weight/{name}"] = weight
    case.differentiate(**outputs)
    for name, weight in weights.items():
        case.keep(**{f"weight/{name}": weight, f"grad/{name}": case.kept.pop(f"grad_weight/{name}")})


def hidden_keys(lengths, seq):
    return None if lengths is None else torch.arange(seq) >= torch.tensor(lengths)[:, None]


def multi_head():
    file = File("multi_head")

    def add(name, batch=2, queries=5, keys=None, d_model=12, n_heads=3, causal=False, lengths=None, cross=None):
        case = file.case(name, n_heads=n_heads, causal=causal, lengths=lengths, cross=cross is not None)
        layer = fill(case, nn.MultiheadAttention(d_model, n_heads, batch_first=True, kdim=cross, vdim=cross))
        x = case.leaf("x", batch, queries, d_model)
        source = x if cross is None else case.leaf("source", batch, keys, cross)
        mask = torch.ones(queries, queries, dtype=torch.bool).triu(1) if causal else None
        out, weights = layer(
            x, source, source, key_padding_mask=hidden_keys(lengths, source.shape[1]), attn_mask=mask,
            average_attn_weights=False,
        )  # fmt: skip
        case.keep(weights=weights)
        finish(case, layer, out=out)

    add("self")
    add("causal", causal=True)
    add("lengths", lengths=[5, 3])
    add("causal_lengths", causal=True, lengths=[5, 2])
    add("cross", keys=7, cross=10, lengths=[7, 4])
    return file


def blocks():
    file = File("blocks")
    sizes = dict(d_model=8, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True)
    for pre in (False, True):
        name = "pre" if pre else "post"
        case = file.case(f"encoder_{name}", pre=pre, lengths=[5, 3], activation="gelu")
        block = fill(case, nn.TransformerEncoderLayer(**sizes, norm_first=pre, activation="gelu"))
        x = case.leaf("x", 2, 5, 8)
        finish(case, block, out=block(x, src_key_padding_mask=hidden_keys([5, 3], 5)))

        case = file.case(f"decoder_{name}", pre=pre, lengths=[6, 4], activation="relu")
        block = fill(case, nn.TransformerDecoderLayer(**sizes, norm_first=pre))
        x, source = case.leaf("x", 2, 4, 8), case.leaf("source", 2, 6, 8)
        mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
        out = block(x, source, tgt_mask=mask, memory_key_padding_mask=hidden_keys([6, 4], 6))
        finish(case, block, out=out)

    for kernel, causal in ((3, False), (4, False), (3, True)):
        case = file.case(f"conv_{kernel}_{'causal' if causal else 'centred'}", kernel=kernel, causal=causal)
        module = fill(case, nn.ModuleDict({"conv": nn.Conv1d(8, 8, kernel), "norm": nn.LayerNorm(8)}))
        x = case.leaf("x", 2, 6, 8)
        before = kernel - 1 if causal else kernel // 2
        padded = F.pad(x.transpose(1, 2), (before, kernel - 1 - before))
        finish(case, module, out=module["norm"](x + F.relu(module["conv"](padded)).transpose(1, 2)))
    return file


def linear_blocks():
    """Encoder blocks whose attention weights are `φ(q)·φ(k)`, `φ(x) = elu(x) + 1`, divided by their sum over the visible keys
    (Katharopoulos 2020), by the formula with all weights; parameters are those of PyTorch's encoder layer."""
    file = File("linear_blocks")
    n_heads, d_model, seq = 2, 8, 5
    for name, pre, causal, lengths in (
        ("post", False, False, [5, 3]),
        ("pre", True, False, [5, 3]),
        ("causal", True, True, [5, 5]),
        ("causal_lengths", False, True, [5, 2]),
    ):
        case = file.case(name, pre=pre, causal=causal, lengths=lengths)
        block = fill(case, nn.TransformerEncoderLayer(d_model, n_heads, 16, dropout=0.0, activation="gelu", norm_first=pre))
        visible = ~hidden_keys(lengths, seq)[:, None, None]
        if causal:
            visible = visible & torch.ones(seq, seq, dtype=torch.bool).tril()

        def attention(x, layer=block.self_attn, visible=visible):
            qkv = F.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, -1)
            q, k, v = (part.unflatten(-1, (n_heads, -1)).transpose(1, 2) for part in qkv)
            products = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(2, 3) * visible
            weights = products / products.sum(-1, keepdim=True)
            return layer.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights

        feed_forward = lambda x, block=block: block.linear2(F.gelu(block.linear1(x)))  # noqa: E731
        x = case.leaf("x", 2, seq, d_model)
        mixed, weights = attention(block.norm1(x) if pre else x)
        y = x + mixed if pre else block.norm1(x + mixed)
        out = y + feed_forward(block.norm2(y)) if pre else block.norm2(y + feed_forward(y))
        case.keep(weights=weights)
        finish(case, block, out=out)
    return file


def sinusoids(seq, d):
    """Returns the published positions, from the formula."""
    rows = [[math.sin(p / 10000 ** (2 * (i // 2) / d) + (i % 2) * math.pi / 2) for i in range(d)] for p in range(seq)]
    return torch.tensor(rows)


def translator():
    """Two layers on each side, no shared weights, label smoothing 0.1. With `layerwise`, decoder layer `n` attends to encoder
    layer `n`."""
    file = File("translator")
    for layerwise in (False, True):
        case = file.case("layerwise" if layerwise else "last", n_heads=2, lengths=[5, 3], layerwise=layerwise)
        sizes = dict(nhead=2, dim_feedforward=12, dropout=0.0, batch_first=True)
        model = nn.ModuleDict({
            "source": nn.Embedding(11, 8), "target": nn.Embedding(9, 8), "output": nn.Linear(8, 9),
            "encoder": nn.ModuleList(nn.TransformerEncoderLayer(8, **sizes) for _ in range(2)),
            "decoder": nn.ModuleList(nn.TransformerDecoderLayer(8, **sizes) for _ in range(2)),
        })  # fmt: skip
        fill(case, model)
        ids, inputs, targets = case.integers(11, 2, 5), case.integers(9, 2, 4), case.integers(9, 2, 4)
        targets[1, 3] = -100
        hidden = hidden_keys([5, 3], 5)
        x, memory = model["source"](ids) * math.sqrt(8) + sinusoids(5, 8), []
        for block in model["encoder"]:
            x = block(x, src_key_padding_mask=hidden)
            memory.append(x)
        y = model["target"](inputs) * math.sqrt(8) + sinusoids(4, 8)
        mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
        for i, block in enumerate(model["decoder"]):
            source = memory[i] if layerwise else memory[-1]
            y = block(y, source, tgt_mask=mask, memory_key_padding_mask=hidden)
        logits = model["output"](y)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)
        loss.backward()
        case.keep(ids=ids, inputs=inputs, targets=targets, logits=logits, loss=loss)
        for name, weight in model.named_parameters():
            case.keep(**{f"weight/{name}": weight, f"grad/{name}": weight.grad})
    return file


if __name__ == "__main__":
    print(f"{sum(file.save() for file in (multi_head(), blocks(), linear_blocks(), translator())):7d}  in all")
