"""Makes the reference files of the fused operations. Run it without arguments; `reference.py` describes the files."""

import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

from reference import File, single

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from peer_torch import Gpt  # noqa: E402  the model of the speed comparison, at a tiny size


def attend(q, k, v, scale, allowed, bias):
    """Returns `(out, log_sum_exp, sees)`; a row that may see no key has zeros, a log-sum-exp of −∞ and no gradient."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * scale + bias
    allowed = allowed.expand(scores.shape)
    sees = allowed.any(-1, keepdim=True)
    scores = torch.where(sees, torch.where(allowed, scores, -torch.inf), 0.0)
    weights = torch.where(allowed, scores.softmax(-1), 0.0)
    log_sum_exp = torch.where(sees, scores.logsumexp(-1, keepdim=True), -torch.inf).squeeze(-1)
    return weights @ v, log_sum_exp, sees


def attention():
    """`log_sum_exp` is stored but is not part of the loss. The position of query `i` is `i + keys − queries`."""
    file = File("attention")

    def add(name, batch=1, n_heads=2, kv_heads=None, queries=9, keys=None, d_head=8, d_value=None, scale=None,
            left=None, right=None, lengths=None, boolean=None, bias=False, alibi=False, relative=None):  # fmt: skip
        kv_heads, keys, d_value = kv_heads or n_heads, keys or queries, d_value or d_head
        scale = single(scale or d_head**-0.5)
        case = file.case(
            name, scale=scale, left=left, right=right, lengths=lengths, boolean=boolean is not None, bias=bias,
            alibi=alibi, relative_max=relative,
        )  # fmt: skip
        q = case.leaf("q", batch, n_heads, queries, d_head)
        k = case.leaf("k", batch, kv_heads, keys, d_head)
        v = case.leaf("v", batch, kv_heads, keys, d_value)
        position, key = torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)
        allowed = torch.ones(batch, 1, queries, keys, dtype=torch.bool)
        if left is not None:
            allowed &= key >= position - left
        if right is not None:
            allowed &= key <= position + right
        if lengths is not None:
            lengths = torch.tensor(lengths)
            case.keep(lengths=lengths)
            allowed &= key < lengths[:, None, None, None]
        if boolean is not None:
            mask = torch.rand(batch, 1, queries, keys, generator=case.generator) < boolean
            mask[0, :, 3] = False  # a row that may see no key
            case.keep(mask=mask)
            allowed &= mask
        added = torch.zeros(())
        if bias:
            added = added + case.leaf("bias", 1, n_heads, queries, keys)
        if alibi:
            slopes = 2.0 ** (-8.0 * torch.arange(1, n_heads + 1) / n_heads)
            case.keep(slopes=slopes)
            added = added - slopes[:, None, None] * (key - position).abs()
        if relative is not None:
            table = case.leaf("table", n_heads, 2 * relative + 1)
            added = added + table[:, (key - position).clamp(-relative, relative) + relative]
        out, log_sum_exp, sees = attend(q, k, v, scale, allowed, added)
        case.differentiate(out=out)
        case.keep(log_sum_exp=log_sum_exp)

        # Compare the formula with PyTorch's own, on the rows that see a key.
        mask = torch.where(allowed, added, -torch.inf).expand(batch, n_heads, queries, keys)
        theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)
        torch.testing.assert_close(torch.where(sees, theirs, 0.0), out, rtol=1e-12, atol=1e-12)

    add("full")
    add("causal", queries=11, right=0)
    add("window", n_heads=1, queries=13, left=3, right=2)
    add("lengths", batch=3, queries=5, d_head=4, lengths=[5, 3, 0])
    add("boolean", batch=2, queries=7, d_head=4, boolean=0.6)
    add("bias", batch=2, queries=7, d_head=4, bias=True)
    add("alibi", queries=7, alibi=True)
    add("relative", relative=3)
    add("gqa", n_heads=4, kv_heads=2, queries=7)
    add("cross", queries=5, keys=9, right=0)
    add("cross_short", n_heads=1, queries=9, keys=5, right=0)  # the first four queries see no key
    add("scale", n_heads=1, queries=7, scale=0.7)
    add("d_value", n_heads=1, queries=7, d_value=5)
    heads = dict(n_heads=4, kv_heads=2, d_head=4)
    add("combination", batch=2, queries=7, right=0, lengths=[7, 4], bias=True, alibi=True, **heads)
    return file


def linear_attention():
    """`elu`: `Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j)`, `φ = elu + 1`; `identity`: `Σ_j (q_i·k_j) v_j / keys`."""
    file = File("linear_attention")
    for name, causal in (("elu_full", False), ("elu_causal", True), ("identity_full", False)):
        elu = name.startswith("elu")
        feature_map, normalisation = ("elu_plus_one", "sum") if elu else ("identity", "1/keys")
        case = file.case(name, causal=causal, feature_map=feature_map, normalisation=normalisation)
        q, k, v = (case.leaf(x, 2, 2, 9, d) for x, d in (("q", 6), ("k", 6), ("v", 5)))
        weights = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-1, -2) if elu else q @ k.transpose(-1, -2) / k.shape[2]
        weights = weights.tril() if causal else weights
        case.differentiate(out=(weights / weights.sum(-1, keepdim=True) if elu else weights) @ v)
    return file


def graph_attention():
    """`edges` `[n, 2]` are source and target, sorted by target and source; `weights` `[n, n_heads]` are not part of the loss."""
    file = File("graph_attention")

    def add(name, share, nodes=6, n_heads=2, d_head=5, slope=0.2, loops=True):
        slope = single(slope)
        case = file.case(name, slope=slope)
        dense = torch.rand(nodes, nodes, generator=case.generator) < share  # [target, source]
        dense |= torch.eye(nodes, dtype=torch.bool) if loops else False
        dense[1] &= loops  # without loops, a node without incoming edges
        target, source = dense.nonzero(as_tuple=True)
        h = case.leaf("h", nodes, n_heads, d_head)
        s, t = (case.leaf(f"{side}_scores", nodes, n_heads, scale=2.0) for side in ("source", "target"))
        scores = F.leaky_relu(s[source] + t[target], slope)
        index = target[:, None].expand_as(scores)
        largest = torch.full_like(t, -torch.inf).scatter_reduce(0, index, scores.detach(), "amax")
        weights = (scores - largest[target]).exp()
        weights = weights / torch.zeros_like(t).index_add(0, target, weights)[target]
        case.differentiate(out=torch.zeros_like(h).index_add(0, target, weights[:, :, None] * h[source]))
        case.keep(edges=torch.stack([source, target], 1), weights=weights)

        # Compare the formula with a dense masked softmax.
        scores = torch.where(dense[:, :, None], F.leaky_relu(s[None] + t[:, None], slope), -torch.inf)
        theirs = torch.einsum("ijh,jhd->ihd", scores.softmax(1).nan_to_num(), h)
        torch.testing.assert_close(theirs, case.kept["out"], rtol=1e-12, atol=1e-12)

    add("loops", 0.3)
    add("empty_row", 0.4, loops=False)
    add("one_head", 0.3, nodes=9, n_heads=1, d_head=7)
    add("wide", 0.5, nodes=5, n_heads=3, d_head=17, slope=0.01)
    return file


def layer_norm():
    file = File("layer_norm")
    cases = (("plain", 16, 1.0, 0.0), ("odd", 37, 3.0, 0.0), ("far_from_zero", 24, 1.0, 100.0))
    for name, width, scale, shift in cases:
        eps = single(1e-5)
        case = file.case(name, eps=eps)
        x = case.leaf("x", value=case.random(6, width, scale=scale) + shift)
        out = F.layer_norm(x, (width,), case.leaf("weight", width), case.leaf("bias", width), eps)
        case.differentiate(out=out)
        variance, mean = torch.var_mean(x, -1, correction=0)
        case.keep(mean=mean, inverse=(variance + eps).rsqrt())
    return file


def rms_norm():
    file = File("rms_norm")
    for name, width, scale in (("plain", 16, 1.0), ("odd", 37, 3.0), ("small", 24, 1e-3)):
        eps = single(1e-6)
        case = file.case(name, eps=eps)
        x = case.leaf("x", 6, width, scale=scale)
        case.differentiate(out=F.rms_norm(x, (width,), case.leaf("weight", width), eps))
        case.keep(inverse=(x.square().mean(-1) + eps).rsqrt())
    return file


def activations():
    file = File("activations")
    kinds = {
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
    }
    for name, function in kinds.items():
        case = file.case(name)
        x = case.leaf("x", value=torch.cat([torch.linspace(-12, 12, 97), case.random(64), case.random(32, scale=1e-3)]))
        case.differentiate(out=function(x))
    return file


def softmax():
    """`masked` has entries of −∞ and a row in which all are, whose weights and gradients are zero."""
    file = File("softmax")
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        for suffix, width, scale in (("", 17, 1.0), ("_sharp", 33, 30.0)):
            case = file.case(name + suffix)
            case.differentiate(out=function(case.leaf("x", 5, width, scale=scale), -1))
    case = file.case("softmax_masked")
    visible = torch.rand(5, 17, generator=case.generator) < 0.6
    visible[2] = False
    x = case.leaf("x", value=case.random(5, 17).masked_fill(~visible, -torch.inf))
    sees = visible.any(-1, keepdim=True)
    case.differentiate(out=torch.where(visible, torch.where(sees, x, 0.0).softmax(-1), 0.0))
    return file


def cross_entropy():
    """The loss is the mean over the rows that are not ignored; `grad_logits` is the gradient of the loss itself."""
    file = File("cross_entropy")
    kinds = {"plain": 0.0, "ignore_index": 0.0, "smoothing": single(0.1), "smoothing_ignore_index": single(0.1)}
    for name, smoothing in kinds.items():
        case = file.case(name, ignore_index=-100, smoothing=smoothing)
        logits, targets = case.leaf("logits", 9, 23, scale=3.0), case.integers(23, 9)
        if "ignore_index" in name:
            targets[[1, 4, 5]] = -100
        rows = F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
        loss = F.cross_entropy(logits, targets, label_smoothing=smoothing)
        (gradient,) = torch.autograd.grad(loss, logits)
        case.keep(targets=targets, row_losses=rows, loss=loss, grad_logits=gradient)
    return file


def linear():
    file = File("linear")
    for name, bias in (("plain", False), ("bias", True)):
        case = file.case(name, bias=bias)
        x, weight = case.leaf("x", 2, 5, 12), case.leaf("weight", 19, 12)
        case.differentiate(out=F.linear(x, weight, case.leaf("bias", 19) if bias else None))
    return file


def linear_gelu():
    """`gelu(x Wᵀ + b)`, exact GELU."""
    file = File("linear_gelu")
    case = file.case("bias", activation="gelu")
    x, weight, bias = case.leaf("x", 2, 5, 12), case.leaf("weight", 19, 12), case.leaf("bias", 19)
    case.differentiate(out=F.gelu(F.linear(x, weight, bias)))
    return file


def group_norm():
    """`relu(group_norm(x) + onto)`, where `onto` and the ReLU may be left out."""
    file = File("group_norm")

    def add(name, shape, groups, relu=False, onto=False, shift=0.0):
        case = file.case(name, groups=groups, eps=single(1e-5), relu=relu)
        x = case.leaf("x", *shape, value=case.random(*shape) + shift)
        weight, bias = case.leaf("weight", shape[1]), case.leaf("bias", shape[1])
        out = F.group_norm(x, groups, weight, bias, single(1e-5))
        if onto:
            out = out + case.leaf("onto", *shape)
        case.differentiate(out=F.relu(out) if relu else out)

    add("plain", (2, 6, 5, 4), 3)
    add("one_group", (2, 4, 3, 3), 1)
    add("a_channel_each", (2, 5, 4, 4), 5)
    add("relu", (3, 8, 4, 5), 2, relu=True)
    add("onto", (2, 4, 5, 5), 2, onto=True)
    add("onto_relu", (2, 8, 3, 7), 4, relu=True, onto=True)
    add("far_from_zero", (2, 4, 4, 4), 2, shift=100.0)
    return file


def convolution():
    """Weights are `[out_channels, in_channels, kernel_h, kernel_w]`."""
    file = File("convolution")

    def add(name, x, weight, stride=(1, 1), padding=(0, 0), bias=True):
        case = file.case(name, stride=stride, padding=padding)
        x, weight = case.leaf("x", *x), case.leaf("weight", *weight)
        bias = case.leaf("bias", weight.shape[0]) if bias else None
        case.differentiate(out=F.conv2d(x, weight, bias, stride, padding))

    add("same", (2, 3, 7, 6), (5, 3, 3, 3), padding=(1, 1))
    add("valid", (2, 2, 6, 7), (3, 2, 3, 3), bias=False)
    add("strided", (2, 3, 9, 8), (4, 3, 3, 3), stride=(2, 2), padding=(1, 1))
    add("pairs", (1, 2, 8, 9), (3, 2, 5, 3), stride=(3, 1), padding=(2, 0))
    add("pointwise", (2, 4, 5, 3), (6, 4, 1, 1))
    add("skipping", (1, 2, 7, 7), (2, 2, 1, 2), stride=(2, 3))
    add("one_channel", (3, 1, 8, 8), (17, 1, 3, 3), padding=(1, 1))
    return file


def embedding():
    file = File("embedding")
    case = file.case("repeated")
    ids = case.integers(7, 3, 8)  # 24 ids for 11 rows: some repeat, the last four rows never occur
    case.keep(ids=ids)
    case.differentiate(out=F.embedding(ids, case.leaf("table", 11, 10)))
    return file


def rope():
    """`angles` `[seq, d_head/2]`; interleaved pairs `(2i, 2i+1)`, halves `(i, i + d_head/2)`."""
    file = File("rope")
    for pairing in ("interleaved", "halves"):
        for kind in ("learned", "fixed"):
            case = file.case(f"{pairing}_{kind}", pairing=pairing, base=10000 if kind == "fixed" else None)
            seq, d_head = 7, 8
            x = case.leaf("x", 2, 2, seq, d_head)
            fixed = torch.arange(seq)[:, None] * 10000.0 ** (-torch.arange(0, d_head, 2) / d_head)
            angles = case.leaf("angles", seq, d_head // 2, value=fixed if kind == "fixed" else None)
            cos, sin = angles.cos(), angles.sin()
            a, b = (x[..., 0::2], x[..., 1::2]) if pairing == "interleaved" else x.chunk(2, -1)
            turned = (a * cos - b * sin, a * sin + b * cos)
            interleaved = torch.stack(turned, -1).flatten(-2)
            case.differentiate(out=interleaved if pairing == "interleaved" else torch.cat(turned, -1))
    return file


def recurrent(name):
    """`batch_first`, with PyTorch's gate order: LSTM `i, f, g, o`, GRU `r, z, n` with the reset after the product.

    The case `zeros` starts from zero states and has a gradient of `out` alone; `states` has states and all gradients.
    """
    file = File(name)
    kind, gates = {"lstm": (nn.LSTM, 4), "gru": (nn.GRU, 3), "rnn": (nn.RNN, 1)}[name]
    batch, seq, d_in, d_hidden = 3, 5, 4, 6
    for case_name in ("zeros", "states"):
        case = file.case(case_name, gates={"lstm": "ifgo", "gru": "rzn", "rnn": "tanh"}[name])
        x = case.leaf("x", batch, seq, d_in)
        layer = kind(d_in, d_hidden, batch_first=True)
        rows = gates * d_hidden
        shapes = {"w_ih": (rows, d_in), "w_hh": (rows, d_hidden), "b_ih": (rows,), "b_hh": (rows,)}
        # Multiples of 2⁻¹⁰, so that the sum of the two biases is a float32 number as well.
        weights = {
            weight: case.leaf(weight, value=case.random(*shape, scale=512.0).round() / 1024.0)
            for weight, shape in shapes.items()
        }
        theirs = dict(zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"), weights.values()))
        states = None
        if case_name == "states":
            states = [case.leaf(state, 1, batch, d_hidden) for state in ("h0", "c0")[: 2 if name == "lstm" else 1]]
            states = tuple(states) if name == "lstm" else states[0]
        out, last = torch.func.functional_call(layer, theirs, (x, states))
        last = dict(zip(("h_n", "c_n"), last if name == "lstm" else (last,)))
        if case_name == "states":
            case.differentiate(out=out, **last)
        else:
            case.differentiate(out=out)
            case.keep(**last)
        if name != "gru":  # its two biases of the candidate cannot be added
            case.keep(bias=weights["b_ih"] + weights["b_hh"], grad_bias=case.kept["grad_b_ih"])
    return file


def adamw():
    """Three steps, with `norm` before clipping, `weight` and `bias` after the step. Both tensors decay."""
    file = File("adamw")
    lr, beta1, beta2, eps, decay = (single(x) for x in (1e-2, 0.9, 0.999, 1e-8, 0.1))
    options = dict(learning_rate=lr, beta1=beta1, beta2=beta2, epsilon=eps, weight_decay=decay)
    for name, max_norm in (("plain", None), ("clipped", 1.0)):
        case = file.case(name, max_norm=max_norm, **options)
        parameters = {"weight": case.random(5, 7).requires_grad_(), "bias": case.random(11).requires_grad_()}
        case.keep(**{f"step_0/{key}": tensor.clone() for key, tensor in parameters.items()})
        optimizer = torch.optim.AdamW(parameters.values(), lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay)
        for step, scale in ((1, 2.0), (2, 0.05), (3, 1.0)):  # the second gradient is too small to be clipped
            for key, tensor in parameters.items():
                tensor.grad = case.random(*tensor.shape, scale=scale)
                case.keep(**{f"step_{step}/grad_{key}": tensor.grad.clone()})
            if max_norm:
                norm = torch.nn.utils.clip_grad_norm_(parameters.values(), max_norm)
                case.keep(**{f"step_{step}/norm": norm})
            optimizer.step()
            case.keep(**{f"step_{step}/{key}": tensor.clone() for key, tensor in parameters.items()})
    return file


def tiny_gpt():
    """The model of `bench/peer_torch.py`: every weight `model/weight/…`, its gradient `model/grad/…`, loss and logits."""
    file = File("tiny_gpt")
    sizes = dict(seq=8, d_model=16, n_heads=2, n_layers=2, d_ff=32, vocab=23)
    case = file.case("model", batch=2, **sizes)
    model = Gpt(**sizes)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Norms differ from 1 and 0, so that their gradients are tested.
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            weight.copy_((centre + case.random(*weight.shape, scale=0.2)).float())
    ids = case.integers(sizes["vocab"], 2, sizes["seq"] + 1)
    logits = []
    hook = model.head.register_forward_hook(lambda module, inputs, output: logits.append(output))
    loss = model(ids[:, :-1], ids[:, 1:])
    hook.remove()
    loss.backward()
    case.keep(ids=ids[:, :-1], targets=ids[:, 1:], loss=loss, logits=logits[0])
    for name, weight in model.named_parameters():
        case.keep(**{f"weight/{name}": weight, f"grad/{name}": weight.grad})
    return file


def main():
    files = [
        attention(), linear_attention(), graph_attention(), layer_norm(), rms_norm(), activations(), softmax(),
        cross_entropy(), linear(), linear_gelu(), group_norm(), convolution(), embedding(), rope(), recurrent("lstm"), recurrent("gru"),
        recurrent("rnn"), adamw(), tiny_gpt(),
    ]  # fmt: skip
    print(f"{sum(file.save() for file in files):7d}  in all")


if __name__ == "__main__":
    main()
