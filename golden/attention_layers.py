"""Makes the reference files of the attention layers other than multi-head dot-product attention. Run it without arguments;
`reference.py` describes the files."""

import torch
import torch.nn.functional as F

from reference import File, single


def context_attention():
    """`scores` are stored but are not part of the loss. The weights `w`, `u` and `v` are those of the scores' formulas;
    `values` are the values."""
    file = File("context_attention")
    batch, queries, keys, d_hidden, d_value = 3, 2, 6, 7, 3
    for kind in ("additive", "dot", "general", "scaled_dot"):
        d_key = 4
        d_query = d_key if kind.endswith("dot") else 5
        case = file.case(kind, d_query=d_query, d_key=d_key, d_hidden=d_hidden, lengths=[6, 4, 0])
        q, k = case.leaf("queries", batch, queries, d_query), case.leaf("keys", batch, keys, d_key)
        values = case.leaf("values", batch, keys, d_value)
        if kind == "additive":
            w, b = case.leaf("w", d_hidden, d_query), case.leaf("b", d_hidden)
            u, v = case.leaf("u", d_hidden, d_key), case.leaf("v", 1, d_hidden)
            hidden = F.linear(q, w, b)[:, :, None] + F.linear(k, u)[:, None]
            scores = F.linear(hidden.tanh(), v).squeeze(-1)
        elif kind == "general":
            w = case.leaf("w", d_query, d_key)  # qᵀ W k, in the orientation of the formula
            scores = torch.einsum("bqi,ij,bkj->bqk", q, w, k)
        else:
            scores = q @ k.transpose(1, 2) / (d_key**0.5 if kind == "scaled_dot" else 1.0)
        allowed = (torch.arange(keys) < torch.tensor(case.options["lengths"])[:, None])[:, None]
        weights = scores.masked_fill(~allowed, -1e9).softmax(-1) * allowed  # zeros where there is no key
        case.keep(scores=scores, weights=weights)
        case.differentiate(out=weights @ values)
    return file


def linear_attention_layer():
    """The formula with columns, as published: `X` is `d × n`, `Y = (1/n) W_O W_V X Xᵀ W_Qᵀ W_K X`. If causal, column `i` is
    the last one of the formula over the first `i` columns. `elu` uses `φ` of queries and keys and divides by the sum."""
    file = File("linear_attention_layer")

    def columns(x, q, k, v, n, elu):
        """Returns the sum of the formula over all columns of `q = W_Q X`, `k = W_K X`, `v = W_V X`."""
        if not elu:
            return v @ q.T @ k / n
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return (v @ q.T @ k) / (torch.ones(1, n) @ q.T @ k)

    for name, d, n_heads, d_head, causal, elu in (
        ("merged", 5, 1, 5, False, False),
        ("separate", 5, 1, 5, False, False),
        ("full", 5, 1, 5, False, False),
        ("multi_head", 6, 2, 3, False, False),
        ("multi_head_wide", 5, 2, 4, False, False),
        ("causal_full", 5, 1, 5, True, False),
        ("causal_elu_multi_head", 6, 2, 3, True, True),
    ):
        batch, n = 2, 7
        case = file.case(name, d_model=d, n_heads=n_heads, d_head=d_head, causal=causal, elu=elu)
        x = case.leaf("x", batch, n, d)
        width = n_heads * d_head
        multi = "multi_head" in name
        if name == "merged":
            w = case.leaf("w", d, d, scale=0.5)
            w_q, w_k, w_v, w_o = torch.eye(d), w, torch.eye(d), None
        else:
            w_q, w_k = case.leaf("w_q", width, d, scale=0.5), case.leaf("w_k", width, d, scale=0.5)
            w_v = case.leaf("w_v", width, d, scale=0.5) if multi or "full" in name else torch.eye(d)
            w_o = case.leaf("w_o", d, width, scale=0.5) if multi else None
        outputs = []
        for rows in x:
            whole, heads = rows.T, []
            for h in range(n_heads):
                part = slice(h * d_head, (h + 1) * d_head)
                run = lambda x: columns(x, w_q[part] @ x, w_k[part] @ x, w_v[part] @ x, x.shape[1], elu)  # noqa: E731
                head = torch.stack([run(whole[:, : i + 1])[:, -1] for i in range(n)], 1) if causal else run(whole)
                heads.append(head if w_o is None else w_o[:, part] @ head)
            outputs.append(sum(heads).T)
        case.differentiate(out=torch.stack(outputs))
    return file


def gaussian_window():
    """Computed step by step from `position`; `weights` are `φ` with zeros at padding, `last` is the position after the last
    step. `finished` is the stop criterion at each step, from logarithms: far past the text `φ` is zero even in float64."""
    file = File("gaussian_window")
    for name, lengths, scale in (("plain", [6, 4, 0], 0.4), ("sharp", [6, 6, 1], 1.5)):
        batch, seq, d_hidden, n, width, d_char = 3, 5, 4, 2, 6, 3
        case = file.case(name, n_components=n, lengths=lengths)
        hidden, text = case.leaf("hidden", batch, seq, d_hidden), case.leaf("characters", batch, width, d_char)
        weight = case.leaf("weight", 3 * n, d_hidden, scale=scale)
        bias, start = case.leaf("bias", 3 * n, scale=scale), case.leaf("position", batch, n, scale=0.5)
        kappa, windows, weights, finished = start, [], [], []
        for t in range(seq):
            a, b, move = F.linear(hidden[:, t], weight, bias).exp().split(n, -1)
            kappa = kappa + move
            u = torch.arange(1, width + 2, dtype=torch.float64)
            phi = (a[..., None] * torch.exp(-b[..., None] * (kappa[..., None] - u) ** 2)).sum(1)
            length = torch.tensor(lengths)[:, None]
            inside = phi[:, :-1] * (torch.arange(width) < length)
            log_phi = torch.logsumexp(a.log()[..., None] - b[..., None] * (kappa[..., None] - u) ** 2, 1)
            characters = log_phi[:, :-1].masked_fill(torch.arange(width) >= length, -torch.inf)
            finished.append(log_phi.gather(1, length).squeeze(1) > characters.amax(1))
            weights.append(inside)
            windows.append(torch.einsum("bu,buc->bc", inside, text))
        case.differentiate(out=torch.stack(windows, 1), last=kappa)
        case.keep(weights=torch.stack(weights, 1), finished=torch.stack(finished, 1).long())
    return file


def image_attention():
    """Feature maps are `[batch, channels, height, width]`; projections are convolutions of size 1, stored as matrices."""
    file = File("image_attention")
    batch, channels, height, width, d_key, d_value = 2, 4, 3, 2, 3, 2
    for name, scale in (("spatial", 1.0), ("spatial_scaled", single(0.3)), ("channel", single(0.5))):
        case = file.case(name, d_key=d_key, d_value=d_value, scale=scale)
        x, gate = case.leaf("x", batch, channels, height, width), case.leaf("gate", 1)
        if name == "channel":
            rows = x.flatten(2)
            y = ((rows @ rows.transpose(1, 2) * scale).softmax(-1) @ rows).view_as(x)
        else:

            def convolve(x, part, d_in, d_out):
                weight, bias = case.leaf(f"w_{part}", d_out, d_in, scale=0.5), case.leaf(f"b_{part}", d_out)
                return F.conv2d(x, weight[:, :, None, None], bias)

            q, k, v = (convolve(x, part, channels, d).flatten(2) for part, d in (("q", d_key), ("k", d_key), ("v", d_value)))
            weights = (torch.einsum("bci,bcj->bij", q, k) * scale).softmax(-1)
            attended = torch.einsum("bij,bcj->bci", weights, v).view(batch, d_value, height, width)
            y = convolve(attended, "o", d_value, channels)
            case.keep(weights=weights)
        case.differentiate(out=gate * y + x)
    return file


def main():
    files = [context_attention(), linear_attention_layer(), gaussian_window(), image_attention()]
    print(f"{sum(file.save() for file in files):7d}  in all")


if __name__ == "__main__":
    main()
