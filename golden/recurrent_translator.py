"""Makes the reference files of the recurrent translator and language model, with PyTorch's recurrent modules.

A weight is `case/weight/NAME`, its gradient `case/grad/NAME`, with PyTorch's names. The loss is the mean cross-entropy with
label smoothing 0.1; a target of -100 is ignored. PyTorch's second bias of RNN and LSTM is zero, so that the first is
their sum.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from reference import File
from recurrent_layers import KINDS

LENGTHS = [4, 2]


def fill(case, module, cell):
    with torch.no_grad():
        for name, weight in module.named_parameters():
            value = case.random(*weight.shape, scale=0.5).float()
            weight.copy_(torch.zeros_like(value) if "bias_hh" in name and cell != "gru" else value)


def finish(case, module, cell, **kept):
    case.keep(**kept)
    kept["loss"].backward()
    for name, weight in module.named_parameters():
        if "bias_hh" not in name or cell == "gru":
            case.keep(**{f"weight/{name}": weight, f"grad/{name}": weight.grad})


def score(model, kind, query, keys):
    """Returns the scores, `[batch, keys]`."""
    if kind == "additive":
        hidden = torch.tanh(model["query"](query)[:, None] + model["key"](keys))
        return model["vector"](hidden)[:, :, 0]
    if kind == "general":
        query = model["query"](query)
    product = (keys @ query[:, :, None])[:, :, 0]
    return product / math.sqrt(keys.shape[2]) if kind == "scaled_dot" else product


def translators():
    file = File("recurrent_translator")
    vocab, target_vocab, d_model, d_hidden = 6, 5, 3, 4
    padding = torch.arange(4) >= torch.tensor(LENGTHS)[:, None]

    def add(cell, kind, attend, n_layers=1, direction="both"):
        name = "_".join(part for part in (cell, kind, attend if kind != "none" else "") if part)
        case = file.case(
            name, cell=cell, attention=kind, attend=attend, n_layers=n_layers, direction=direction, vocab=vocab,
            target_vocab=target_vocab, d_model=d_model, d_hidden=d_hidden,
        )  # fmt: skip
        module, before, both = KINDS[cell][0], kind != "none" and attend == "before", direction == "both"
        width = d_hidden // 2 if both else d_hidden
        model = nn.ModuleDict({
            "source": nn.Embedding(vocab, d_model), "target": nn.Embedding(target_vocab, d_model),
            "encoder": module(d_model, width, n_layers, batch_first=True, bidirectional=both),
            "decoder": module(d_model + before * d_hidden, d_hidden, n_layers, batch_first=True),
            "readout": nn.Linear(d_hidden + (kind != "none") * d_hidden + d_model, d_model),
            "output": nn.Linear(d_model, target_vocab),
        })  # fmt: skip
        if kind == "additive":
            model["query"], model["key"] = nn.Linear(d_hidden, d_hidden), nn.Linear(d_hidden, d_hidden, bias=False)
            model["vector"] = nn.Linear(d_hidden, 1, bias=False)
        if kind == "general":
            model["query"] = nn.Linear(d_hidden, d_hidden, bias=False)
        fill(case, model, cell)
        ids, inputs = case.integers(vocab, 2, 4), case.integers(target_vocab, 2, 3)
        targets = case.integers(target_vocab, 2, 3)
        targets[1, 2] = -100
        x = model["source"](ids) * math.sqrt(d_model)
        packed = pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
        keys, state = model["encoder"](packed)
        keys, _ = pad_packed_sequence(keys, batch_first=True, total_length=4)
        join = lambda part: torch.stack([torch.cat(layer.unbind(0), 1) for layer in part.split(1 + both)])
        state = tuple(map(join, state)) if cell == "lstm" else join(state)
        hidden = lambda state: (state[0] if cell == "lstm" else state)[-1]

        def look(query):
            weights = score(model, kind, query, keys).masked_fill(padding, -math.inf).softmax(1)
            return weights, (weights[:, :, None] * keys).sum(1)

        words = model["target"](inputs) * math.sqrt(d_model)
        maps, features = [], []
        for t in range(3):
            word, context = words[:, t], None
            if before:
                weights, context = look(hidden(state))
            parts = [word, context] if before else [word]
            _, state = model["decoder"](torch.cat(parts, 1)[:, None], state)
            if kind != "none" and not before:
                weights, context = look(hidden(state))
            maps += [] if context is None else [weights]
            parts = [hidden(state), context, word] if context is not None else [hidden(state), word]
            features.append(torch.tanh(model["readout"](torch.cat(parts, 1))))
        logits = model["output"](torch.stack(features, 1))
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)
        kept = dict(ids=ids, inputs=inputs, targets=targets, logits=logits, loss=loss)
        finish(case, model, cell, **kept, **({"maps": torch.stack(maps, 1)} if maps else {}))

    for cell in KINDS:
        add(cell, "none", "after")
        add(cell, "additive", "before")
        add(cell, "dot", "after")
        add(cell, "general", "before")
    add("lstm", "additive", "after", n_layers=2)
    add("lstm", "dot", "before", direction="forward")
    add("gru", "general", "after", direction="forward")
    add("gru", "scaled_dot", "before", n_layers=2)
    return file


def language_models():
    file = File("recurrent_language_model")
    for cell, projection in (("rnn", None), ("lstm", 3), ("gru", None)):
        case = file.case(
            cell, cell=cell, n_layers=2, vocab=5, d_model=3, d_hidden=4, d_projection=projection,
            output_weights="embedding" if projection else "own",
        )  # fmt: skip
        model = nn.ModuleDict({
            "embedding": nn.Embedding(5, 3), "recurrent": KINDS[cell][0](3, 4, 2, batch_first=True),
            "output": nn.Linear(projection or 4, 5),
        })  # fmt: skip
        if projection:
            model["projection"] = nn.Linear(4, projection)
            model["output"].weight = model["embedding"].weight
        fill(case, model, cell)
        ids, targets = case.integers(5, 2, 4), case.integers(5, 2, 4)
        states, _ = model["recurrent"](model["embedding"](ids) * math.sqrt(3))
        logits = model["output"](model["projection"](states) if projection else states)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)
        finish(case, model, cell, ids=ids, targets=targets, logits=logits, loss=loss)
    return file


if __name__ == "__main__":
    print(f"{sum(file.save() for file in (translators(), language_models())):7d}  in all")
