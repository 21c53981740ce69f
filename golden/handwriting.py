"""Makes the reference files of handwriting: an LSTM with a Gaussian window over a text, and whole networks (Graves 2013).

Texts are lists of characters, `texts` in the options. The window of a step is an input of the LSTM at the next step, so `w_ih` is
`[4 d_hidden, d_in + d_char]`. In a network, layer `n > 0` reads the points, the window of the step and the states of the layer
below; the output layer reads the states of all layers. `loss` is the mean of `−log p` over all points that are not padding.
"""

import torch
import torch.nn.functional as F

from reference import File


def cell(x, h, c, w_ih, w_hh, bias):
    i, f, g, o = (x @ w_ih.T + h @ w_hh.T + bias).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def one_hot(texts, d_char):
    out = torch.zeros(len(texts), max(max(map(len, texts)), 1), d_char)
    for row, text in enumerate(texts):
        for place, character in enumerate(text):
            out[row, place, character] = 1.0
    return out


def windowed(x, texts, d_char, w_ih, w_hh, bias, w_window, b_window):
    """Returns every hidden state and every window."""
    batch, d_hidden, n = len(texts), w_hh.shape[1], len(b_window) // 3
    text = one_hot(texts, d_char)
    inside = torch.stack([torch.arange(text.shape[1]) < len(t) for t in texts])
    h, c = torch.zeros(batch, d_hidden), torch.zeros(batch, d_hidden)
    w, kappa = torch.zeros(batch, d_char), torch.zeros(batch, n)
    u = torch.arange(1, text.shape[1] + 1, dtype=torch.float64)
    hidden, windows = [], []
    for t in range(x.shape[1]):
        h, c = cell(torch.cat([x[:, t], w], -1), h, c, w_ih, w_hh, bias)
        alpha, beta, move = F.linear(h, w_window, b_window).exp().split(n, -1)
        kappa = kappa + move
        phi = (alpha[..., None] * torch.exp(-beta[..., None] * (kappa[..., None] - u) ** 2)).sum(1) * inside
        w = torch.einsum("bu,buc->bc", phi, text)
        hidden.append(h)
        windows.append(w)
    return torch.stack(hidden, 1), torch.stack(windows, 1)


def window_lstm():
    file = File("window_lstm")
    cases = (("plain", [[0, 2, 1, 1], [2], [1, 0, 0]], 4, 3), ("long", [list(range(3)) * 6, [0] * 5], 6, 2))
    for name, texts, seq, n in cases:
        d_in, d_char, d_hidden = 3, 3, 5
        case = file.case(name, texts=texts, n_components=n)
        x = case.leaf("x", len(texts), seq, d_in)
        weights = [
            case.leaf("w_ih", 4 * d_hidden, d_in + d_char, scale=0.5),
            case.leaf("w_hh", 4 * d_hidden, d_hidden, scale=0.5),
            case.leaf("bias", 4 * d_hidden, scale=0.5),
            case.leaf("w_window", 3 * n, d_hidden, scale=0.7),
            case.leaf("b_window", 3 * n, scale=0.4),
        ]
        hidden, windows = windowed(x, texts, d_char, *weights)
        case.differentiate(hidden=hidden, windows=windows)
    return file


def log_density(raw, x, k):
    """The logarithm of the mixture and of the Bernoulli variable, with PyTorch's own distributions."""
    end, logits, mx, my, sx, sy, rho = raw.split([1, k, k, k, k, k, k], -1)
    sx, sy, rho = sx.exp(), sy.exp(), rho.tanh()
    covariance = torch.stack([torch.stack([sx**2, rho * sx * sy], -1), torch.stack([rho * sx * sy, sy**2], -1)], -2)
    normal = torch.distributions.MultivariateNormal(torch.stack([mx, my], -1), covariance)
    mixture = torch.logsumexp(F.log_softmax(logits, -1) + normal.log_prob(x[..., None, :2]), -1)
    return mixture - F.binary_cross_entropy_with_logits(end[..., 0], x[..., 2], reduction="none")


def handwriting():
    file = File("handwriting")
    d_hidden, k, n, d_char, lengths, seq = 4, 2, 2, 3, [5, 3], 5
    for name, texts in (("synthesis", [[0, 2, 1, 1], [2, 0]]), ("prediction", None)):
        case = file.case(name, texts=texts, d_hidden=d_hidden, components=k, n_components=n, lengths=lengths)
        points = case.random(2, seq, 3)
        points[..., 2] = (points[..., 2] > 0).double()
        targets = torch.cat([points[:, 1:], points[:, :1]], 1)
        case.keep(points=points, targets=targets)
        seen = d_char if texts else 0

        def lstm(layer, d_in):
            shapes = (("w_ih", (4 * d_hidden, d_in)), ("w_hh", (4 * d_hidden, d_hidden)), ("bias", (4 * d_hidden,)))
            return [case.leaf(f"{layer}.{part}", *shape, scale=0.5) for part, shape in shapes]

        first, second = lstm(0, 3 + seen), lstm(1, 3 + seen + d_hidden)
        if texts:
            window = [case.leaf("w_window", 3 * n, d_hidden, scale=0.7), case.leaf("b_window", 3 * n, scale=0.4)]
            below, windows = windowed(points, texts, d_char, *first, *window)
            inputs = [points, windows, below]
        else:
            below, h, c = [], torch.zeros(2, d_hidden), torch.zeros(2, d_hidden)
            for t in range(seq):
                h, c = cell(points[:, t], h, c, *first)
                below.append(h)
            below = torch.stack(below, 1)
            inputs = [points, below]
        above, h, c = [], torch.zeros(2, d_hidden), torch.zeros(2, d_hidden)
        inputs = torch.cat(inputs, -1)
        for t in range(seq):
            h, c = cell(inputs[:, t], h, c, *second)
            above.append(h)
        weight = case.leaf("output", 6 * k + 1, 2 * d_hidden, scale=0.5)
        bias = case.leaf("output_bias", 6 * k + 1, scale=0.3)
        raw = F.linear(torch.cat([below, torch.stack(above, 1)], -1), weight, bias)
        likelihood = log_density(raw, targets, k)
        real = torch.arange(seq) < torch.tensor(lengths)[:, None]
        loss = -(likelihood * real).sum() / sum(lengths)
        grads = torch.autograd.grad(loss, list(case.leaves.values()))
        case.keep(loss=loss.reshape(1), **{f"grad_{name}": grad for name, grad in zip(case.leaves, grads)})
        case.keep(raw=torch.where(real[..., None], raw, 0.0))
    return file


def main():
    print(f"{sum(file.save() for file in [window_lstm(), handwriting()]):7d}  in all")


if __name__ == "__main__":
    main()
