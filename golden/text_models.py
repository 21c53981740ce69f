"""Makes the reference files of taggers, classifiers, masked language models and word vectors, and of their parts.

A weight is `case/weight/NAME`, its gradient `case/grad/NAME`, with PyTorch's names. RNN and LSTM have
one bias: PyTorch's second is zero and not stored. A convolution is `F.conv1d` with the weights of a linear layer over a window, the
leftmost character first. A conditional random field adds up all sequences one by one.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from reference import File
from transformer import fill, finish, hidden_keys, sinusoids

RECURRENT = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def recurrent(kind, d_in, d_hidden):
    layer = RECURRENT[kind](d_in, d_hidden, batch_first=True, bidirectional=True)
    if kind != "gru":
        for name in ("bias_hh_l0", "bias_hh_l0_reverse"):
            delattr(layer, name)
            layer.register_buffer(name, torch.zeros(layer.weight_hh_l0.shape[0]))
        # The layer's list of flat weights still has the old biases; the buffers replace them.
        layer._flat_weights = [getattr(layer, name) for name in layer._flat_weights_names]
    return layer


def refresh(module):
    """Renews the lists of flat weights in which recurrent layers hold their parameters, after `fill` has changed them."""
    for layer in module.modules():
        if isinstance(layer, nn.RNNBase):
            layer._flat_weights = [getattr(layer, name) for name in layer._flat_weights_names]
    return module


def read(layer, x, lengths):
    """Returns all states and the last ones of both directions; zeros for empty sequences."""
    rows = [row for row, length in enumerate(lengths) if length > 0]
    packed = pack_padded_sequence(x[rows], torch.tensor(lengths)[rows], batch_first=True, enforce_sorted=False)
    out, last = layer(packed)
    last = last[0] if isinstance(last, tuple) else last
    out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
    states = torch.zeros(*x.shape[:2], out.shape[2]).index_copy(0, torch.tensor(rows), out)
    ends = torch.zeros(len(x), out.shape[2]).index_copy(0, torch.tensor(rows), torch.cat([last[0], last[1]], 1))
    return states, ends


def real(lengths, seq):
    return torch.arange(seq) < torch.tensor(lengths)[:, None]


def windows(linear, x, lengths, width):
    """Returns the maximum of each filter over the word, then tanh (Ma and Hovy 2016)."""
    words, chars, d_char = x.shape
    x = torch.where(real(lengths, chars)[:, :, None], x, 0.0)
    weight = linear.weight.view(-1, width, d_char).transpose(1, 2)
    padded = F.pad(x.transpose(1, 2), (width // 2, width - 1 - width // 2))
    found = F.conv1d(padded, weight, linear.bias).transpose(1, 2)
    rows = [found[word, :length].max(0).values.tanh() if length else torch.zeros(found.shape[2]) for word, length in enumerate(lengths)]
    return torch.stack(rows)


def characters():
    file = File("characters")
    lengths = [5, 1, 0, 3]
    for widths in ([3], [2, 5]):
        case = file.case(f"convolution_{'_'.join(map(str, widths))}", widths=widths, lengths=lengths)
        parts = {"embedding": nn.Embedding(6, 3)}
        parts |= {f"window{n}": nn.Linear(width * 3, 4) for n, width in enumerate(widths)}
        module = fill(case, nn.ModuleDict(parts), scale=0.7)
        ids = case.integers(6, 4, 5)
        x = module["embedding"](ids)
        case.keep(ids=ids)
        finish(case, module, out=torch.cat([windows(module[f"window{n}"], x, lengths, width) for n, width in enumerate(widths)], 1))
    for kind in RECURRENT:
        case = file.case(kind, cell=kind, lengths=lengths)
        module = refresh(fill(case, nn.ModuleDict({"embedding": nn.Embedding(6, 3), "network": recurrent(kind, 3, 2)}), scale=0.7))
        ids = case.integers(6, 4, 5)
        case.keep(ids=ids)
        finish(case, module, out=read(module["network"], module["embedding"](ids), lengths)[1])
    return file


def pool(kind, x, lengths, score=None):
    """Returns one vector for each sequence; zeros for an empty one."""
    rows, weights = [], torch.zeros(*x.shape[:2])
    for row, length in enumerate(lengths):
        part = x[row, :length]
        if length == 0:
            rows.append(torch.zeros(x.shape[2]))
        elif kind == "attention":
            alpha = score["query"](torch.tanh(score["hidden"](part))).softmax(0)
            weights[row, :length] = alpha[:, 0].detach()
            rows.append((alpha * part).sum(0))
        else:
            take = {"mean": lambda x: x.mean(0), "sum": lambda x: x.sum(0), "max": lambda x: x.max(0).values, "first": lambda x: x[0]}
            rows.append(take[kind](part))
    return torch.stack(rows), weights


def attention_score(d, d_hidden):
    return nn.ModuleDict({"hidden": nn.Linear(d, d_hidden), "query": nn.Linear(d_hidden, 1, bias=False)})


def pooling():
    file = File("pooling")
    for kind in ("mean", "sum", "max", "first", "attention"):
        case = file.case(kind, kind=kind, lengths=[4, 0, 2])
        score = fill(case, attention_score(3, 5) if kind == "attention" else nn.ModuleDict(), scale=0.7)
        x = case.leaf("x", 3, 4, 3)
        out, weights = pool(kind, x, [4, 0, 2], score)
        if kind == "attention":
            case.keep(weights=weights)
        finish(case, score, out=out)
    return file


def crf_loss(start, transitions, end, emissions, tags, lengths):
    """Returns the negative log-likelihood of all sentences together, divided by the number of words."""

    def score(row, path):
        steps = sum(emissions[row, t, tag] for t, tag in enumerate(path))
        return steps + sum(transitions[a, b] for a, b in zip(path, path[1:])) + start[path[0]] + end[path[-1]]

    total = torch.zeros(())
    for row, length in enumerate(lengths):
        every = itertools.product(range(emissions.shape[2]), repeat=length)
        total = total + torch.stack([score(row, path) for path in every]).logsumexp(0) - score(row, tags[row, :length].tolist())
    return total / sum(lengths)


def block(d_model, d_ff, pre):
    return nn.TransformerEncoderLayer(d_model, 2, d_ff, dropout=0.0, batch_first=True, norm_first=pre)


def attend(module, x, lengths):
    """Returns the body of a Transformer: a projection, a norm, positions, pre-norm blocks and their last norm."""
    x = module["body_norm"](module["input"](x)) + sinusoids(x.shape[1], 8)
    for layer in module["blocks"]:
        x = layer(x, src_key_padding_mask=hidden_keys(lengths, x.shape[1]))
    return module["norm"](x)


def transformer_parts(d_in):
    blocks = nn.ModuleList(block(8, 12, True) for _ in range(2))
    return {"input": nn.Linear(d_in, 8), "body_norm": nn.LayerNorm(8), "blocks": blocks, "norm": nn.LayerNorm(8)}


def keep_loss(case, module, logits, loss, **tensors):
    loss.backward()
    case.keep(logits=logits, loss=loss, **tensors)
    for name, weight in module.named_parameters():
        case.keep(**{f"weight/{name}": weight, f"grad/{name}": weight.grad})


def tagger():
    file = File("tagger")
    lengths, n_tags = [4, 2, 3], 3
    for kind in ("lstm", "gru_crf", "transformer", "pieces_first", "pieces_mean"):
        case = file.case(kind, lengths=lengths)
        words, tags = case.integers(7, 3, 4), case.integers(n_tags, 3, 4)
        case.keep(words=words, tags=tags)
        if kind == "lstm":
            # The characters of each distinct word are stored once.
            module = nn.ModuleDict({
                "words": nn.Embedding(7, 4), "chars": nn.Embedding(6, 3), "window": nn.Linear(9, 3), "body": recurrent("lstm", 7, 3), "output": nn.Linear(6, n_tags),
            })  # fmt: skip
            refresh(fill(case, module, scale=0.7))
            ids, char_lengths, index = case.integers(6, 5, 4), [4, 1, 2, 3, 4], case.integers(5, 3, 4)
            case.options["char_lengths"] = char_lengths
            case.keep(ids=ids, index=index)
            by_characters = windows(module["window"], module["chars"](ids), char_lengths, 3)[index]
            states, _ = read(module["body"], torch.cat([module["words"](words), by_characters], 2), lengths)
        elif kind == "gru_crf":
            module = nn.ModuleDict({"words": nn.Embedding(7, 4), "body": recurrent("gru", 4, 3), "output": nn.Linear(6, n_tags)})
            crf = nn.ParameterDict({"start": torch.zeros(n_tags), "transitions": torch.zeros(n_tags, n_tags), "end": torch.zeros(n_tags)})
            module["crf"] = crf
            refresh(fill(case, module, scale=0.7))
            states, _ = read(module["body"], module["words"](words), lengths)
        elif kind == "transformer":
            module = fill(case, nn.ModuleDict({"words": nn.Embedding(7, 4), **transformer_parts(4), "output": nn.Linear(8, n_tags)}))
            states = attend(module, module["words"](words), lengths)
        else:
            # In an encoder of pieces, one piece before the first word and one after the last belong to no word.
            module = fill(case, nn.ModuleDict({"pieces": nn.Embedding(9, 8), "block": block(8, 12, False), "output": nn.Linear(8, n_tags)}))
            counts = [[1, 2, 1, 3], [2, 2], [1, 1, 4]]
            piece_lengths = [2 + sum(row) for row in counts]
            ids = case.integers(9, 3, max(piece_lengths))
            case.options |= {"counts": counts, "piece_lengths": piece_lengths}
            case.keep(ids=ids)
            x = module["pieces"](ids) * 8**0.5 + sinusoids(ids.shape[1], 8)
            x = module["block"](x, src_key_padding_mask=hidden_keys(piece_lengths, ids.shape[1]))
            rows = []
            for row, sentence in enumerate(counts):
                at, states = 1, []
                for count in sentence:
                    states.append(x[row, at] if kind == "pieces_first" else x[row, at : at + count].mean(0))
                    at += count
                rows.append(torch.stack(states + [torch.zeros(8)] * (4 - len(sentence))))
            states = torch.stack(rows)
        logits = module["output"](states)
        if kind == "gru_crf":
            loss = crf_loss(crf["start"], crf["transitions"], crf["end"], logits, tags, lengths)
        else:
            kept = real(lengths, 4)
            loss = F.cross_entropy(logits[kept], tags[kept], label_smoothing=0.1)
        keep_loss(case, module, torch.where(real(lengths, 4)[:, :, None], logits, 0.0), loss)
    return file


def classifier():
    file = File("classifier")
    lengths = [4, 1, 3]
    for kind in ("one", "several", "value", "transformer"):
        case = file.case(kind, lengths=lengths)
        ids = case.integers(7, 3, 4)
        case.keep(ids=ids)
        embedding = {"words": nn.Embedding(7, 4)}
        if kind == "one":
            parts = embedding | {"body": recurrent("rnn", 4, 3), "score": attention_score(6, 6), "output": nn.Linear(6, 3)}
            module = refresh(fill(case, nn.ModuleDict(parts), scale=0.7))
            states, _ = read(module["body"], module["words"](ids), lengths)
            logits = module["output"](pool("attention", states, lengths, module["score"])[0])
        elif kind == "transformer":
            module = fill(case, nn.ModuleDict(embedding | transformer_parts(4) | {"output": nn.Linear(8, 3)}))
            logits = module["output"](pool("first", attend(module, module["words"](ids), lengths), lengths)[0])
        else:
            parts = embedding | {"hidden": nn.Linear(4, 5), "output": nn.Linear(5, 3 if kind == "several" else 2)}
            module = fill(case, nn.ModuleDict(parts), scale=0.7)
            pooled, _ = pool("mean" if kind == "several" else "sum", module["words"](ids), lengths)
            logits = module["output"](torch.tanh(module["hidden"](pooled)))
        if kind == "several":
            answers = case.integers(2, 3, 3)
            loss = F.binary_cross_entropy_with_logits(logits, answers.double())
        elif kind == "value":
            answers = case.random(3, 2)
            loss = F.mse_loss(logits, answers)
        else:
            answers = case.integers(3, 3)
            loss = F.cross_entropy(logits, answers, label_smoothing=0.1)
        keep_loss(case, module, logits, loss, answers=answers)
    return file


def masked_language_model():
    file = File("masked_language_model")
    case = file.case("model", lengths=[5, 3], positions=[1, 4, 5, 7])
    module = fill(case, nn.ModuleDict({
        "tokens": nn.Embedding(11, 8), "block": block(8, 12, False), "transform": nn.Linear(8, 8), "norm": nn.LayerNorm(8), "bias": nn.ParameterDict({"value": torch.zeros(11)}),
    }))  # fmt: skip
    ids, targets = case.integers(11, 2, 5), case.integers(11, 4)
    x = module["tokens"](ids) * 8**0.5 + sinusoids(5, 8)
    x = module["block"](x, src_key_padding_mask=hidden_keys([5, 3], 5))
    hidden = module["norm"](F.gelu(module["transform"](x.flatten(0, 1)[[1, 4, 5, 7]])))
    logits = hidden @ module["tokens"].weight.T + module["bias"]["value"]
    keep_loss(case, module, logits, F.cross_entropy(logits, targets), ids=ids, targets=targets)
    return file


def word_vectors():
    file = File("word_vectors")
    for kind in ("skip_gram", "cbow"):
        counts = [3, 1, 2, 3]
        case = file.case(kind, counts=counts)
        module = fill(case, nn.ModuleDict({"input": nn.Embedding(6, 4), "output": nn.Embedding(6, 4)}), scale=1.0)
        right, wrong = case.integers(6, 4), case.integers(6, 4, 3)
        around = case.integers(6, 4, 3) if kind == "cbow" else case.integers(6, 4)
        if kind == "cbow":
            hidden = torch.stack([module["input"](around[row, :count]).mean(0) for row, count in enumerate(counts)])
        else:
            hidden = module["input"](around)
        good = F.logsigmoid((module["output"](right) * hidden).sum(1))
        bad = F.logsigmoid(-(module["output"](wrong) * hidden[:, None]).sum(2)).sum(1)
        keep_loss(case, module, good, -(good + bad).mean(), around=around, right=right, wrong=wrong)
    return file


if __name__ == "__main__":
    files = (characters(), pooling(), tagger(), classifier(), masked_language_model(), word_vectors())
    print(f"{sum(file.save() for file in files):7d}  in all")
