"""Makes the reference files of the recurrent layers (packed sequences, two directions, two layers) and of intra-attention.

`lengths` are the steps of each sequence without padding. `h0`, `c0`, `h_n` and `c_n` are stored as in PyTorch, layer by layer
and forward before backward. A weight is called `layers.N.forward.w_ih` and so on; the biases of RNN and LSTM are added.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from reference import File

KINDS = {"rnn": (nn.RNN, 1), "lstm": (nn.LSTM, 4), "gru": (nn.GRU, 3)}


def recurrent_layers():
    file = File("recurrent_layers")
    batch, seq, d_in, d_hidden, n_layers = 3, 4, 3, 2, 2
    for cell, (kind, gates) in KINDS.items():
        case = file.case(cell, cell=cell, d_in=d_in, d_hidden=d_hidden, n_layers=n_layers, lengths=[4, 1, 3])
        layer = kind(d_in, d_hidden, n_layers, batch_first=True, bidirectional=True)
        x = case.leaf("x", batch, seq, d_in)
        theirs, sums = {}, {}
        for n in range(n_layers):
            for direction, suffix in (("forward", ""), ("backward", "_reverse")):
                ours, end = f"layers.{n}.{direction}.", f"l{n}{suffix}"
                rows, width = gates * d_hidden, d_in if n == 0 else 2 * d_hidden
                # Multiples of 2⁻¹⁰, so that the sum of the two biases is a float32 number as well.
                draw = lambda *shape: case.random(*shape, scale=512.0).round() / 1024.0
                theirs[f"weight_ih_{end}"] = case.leaf(ours + "w_ih", value=draw(rows, width))
                theirs[f"weight_hh_{end}"] = case.leaf(ours + "w_hh", value=draw(rows, d_hidden))
                theirs[f"bias_ih_{end}"] = case.leaf(ours + "bias", value=draw(rows))
                theirs[f"bias_hh_{end}"] = case.leaf(ours + "bias_hh", value=draw(rows))
                sums[ours] = theirs[f"bias_ih_{end}"] + theirs[f"bias_hh_{end}"]
        states = [case.leaf(name, 2 * n_layers, batch, d_hidden) for name in ("h0", "c0")[: 2 if cell == "lstm" else 1]]
        packed = pack_padded_sequence(x, torch.tensor([4, 1, 3]), batch_first=True, enforce_sorted=False)
        # functional_call does not work with packed sequences, so the weights are set in the layer.
        for name, weight in theirs.items():
            getattr(layer, name).data = weight.detach()
        parameters = [getattr(layer, name) for name in theirs]
        out, last = layer(packed, tuple(states) if cell == "lstm" else states[0])
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=seq)
        last = last if cell == "lstm" else (last,)
        outputs = dict(zip(("out", "h_n", "c_n"), (out, *last)))
        grads = {f"grad_{name}": case.random(*output.shape) for name, output in outputs.items()}
        leaves = [x, *states]
        found = torch.autograd.grad(list(outputs.values()), leaves + parameters, list(grads.values()))
        names = ["x", *("h0", "c0")[: len(states)], *(name for name in case.leaves if name.startswith("layers."))]
        case.keep(**outputs, **grads, **{f"grad_{name}": grad for name, grad in zip(names, found)})
        if cell != "gru":
            for ours, bias in sums.items():
                del case.kept[ours + "bias_hh"], case.kept[f"grad_{ours}bias_hh"]
                case.kept[ours + "bias"] = bias
    return file


def intra_attention():
    file = File("intra_attention")
    batch, seq, d_in, d_hidden = 3, 5, 3, 4
    case = file.case("lengths", lengths=[5, 0, 3])
    x = case.leaf("x", batch, seq, d_in)
    weight = case.leaf("weight", d_hidden, d_in + 2 * d_hidden, scale=0.5)
    bias = case.leaf("bias", d_hidden)
    zero = torch.zeros(batch, d_hidden)
    y, context, earlier = zero, zero, []
    maps = torch.zeros(batch, seq, seq)  # row t holds the weights that step t gives to the steps before it
    for t in range(seq):
        if earlier:
            keys = torch.stack(earlier, 1)
            alpha = (keys @ y[:, :, None] / d_hidden**0.5).softmax(1)
            maps[:, t, :t] = alpha[:, :, 0].detach()
            context = (alpha * keys).sum(1)
        y = torch.tanh(torch.cat([x[:, t], y, context], 1) @ weight.T + bias)
        earlier.append(y)
    lengths = torch.tensor([5, 0, 3])
    real = torch.arange(seq) < lengths[:, None]
    states = torch.stack(earlier, 1)
    last = torch.stack([states[b, n - 1] if n else zero[b] for b, n in enumerate(lengths.tolist())])
    case.differentiate(out=torch.where(real[:, :, None], states, 0.0), last=last)
    case.keep(maps=torch.where(real[:, :, None], maps, 0.0))
    return file


if __name__ == "__main__":
    print(f"{sum(file.save() for file in (recurrent_layers(), intra_attention())):7d}  in all")
