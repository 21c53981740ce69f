"""Makes the reference file of the density outputs. Run it without arguments; `reference.py` describes the files."""

import math

import torch
import torch.nn.functional as F
from torch.distributions import Bernoulli, Categorical, MixtureSameFamily, MultivariateNormal

from reference import File


def normal(raw, n, diagonal):
    """Returns the Gaussian of raw outputs: means, the diagonal, then the elements below it, column by column."""
    mean, diag, below = raw.split([n, n, n * (n - 1) // 2], -1)
    diag = diag.exp() if diagonal == "exp" else F.softplus(diag)
    columns, rows = torch.triu_indices(n, n, 1)  # row by row above the diagonal is column by column below it
    places = torch.zeros(len(rows), n, n).index_put((torch.arange(len(rows)), rows, columns), torch.ones(()))
    tril = torch.diag_embed(diag) + torch.einsum("...e,eij->...ij", below, places)
    return MultivariateNormal(mean, scale_tril=tril)


def density():
    """`out` is the log-likelihood of `x` under the raw outputs."""
    file = File("density")

    def gaussian(name, shape, n, diagonal, scale=1.0):
        case = file.case(name, kind="gaussian", dimensions=n, diagonal=diagonal)
        raw = case.leaf("raw", *shape, n + n * (n + 1) // 2, scale=scale)
        x = case.leaf("x", *shape, n)
        case.differentiate(out=normal(raw, n, diagonal).log_prob(x)[..., None])

    def mixture(name, shape, k, n, diagonal):
        case = file.case(name, kind="mixture", components=k, dimensions=n, diagonal=diagonal)
        each = n + n * (n + 1) // 2
        raw, x = case.leaf("raw", *shape, k * (1 + each)), case.leaf("x", *shape, n)
        weights, parts = raw[..., :k], raw[..., k:].reshape(*shape, k, each)
        both = MixtureSameFamily(Categorical(logits=weights), normal(parts, n, diagonal))
        case.differentiate(out=both.log_prob(x)[..., None])

    def stroke(name, shape, k, correlation=1.0):
        case = file.case(name, kind="stroke", components=k)
        raw = case.random(*shape, 6 * k + 1)
        raw[..., 1 + 5 * k :] *= correlation
        raw = case.leaf("raw", value=raw)
        x = case.random(*shape, 3)
        x[..., 2] = (x[..., 2] > 0).double()
        x = case.leaf("x", value=x)
        end, *parts = raw.split([1] + 6 * [k], -1)
        weights, mean_1, mean_2, log_1, log_2, correlation = parts
        deviation_1, deviation_2, rho = log_1.exp(), log_2.exp(), correlation.tanh()

        # Equations 24 and 25 of the paper.
        u, v = (x[..., 0:1] - mean_1) / deviation_1, (x[..., 1:2] - mean_2) / deviation_2
        z = u**2 + v**2 - 2 * rho * u * v
        densities = torch.exp(-z / (2 * (1 - rho**2))) / (2 * math.pi * deviation_1 * deviation_2 * (1 - rho**2).sqrt())
        movement = (weights.softmax(-1) * densities).sum(-1).log()
        # The end of the stroke has a gradient too, since the likelihood is linear in it.
        ends = x[..., 2] * F.logsigmoid(end[..., 0]) + (1 - x[..., 2]) * F.logsigmoid(-end[..., 0])
        case.differentiate(out=(movement + ends)[..., None])

        # Compare the formula with PyTorch's own.
        covariance = torch.stack([deviation_1**2, rho * deviation_1 * deviation_2, deviation_2**2], -1)
        covariance = covariance[..., [0, 1, 1, 2]].reshape(*shape, k, 2, 2)
        normals = MultivariateNormal(torch.stack([mean_1, mean_2], -1), covariance)
        theirs = MixtureSameFamily(Categorical(logits=weights), normals).log_prob(x[..., :2])
        theirs = theirs + Bernoulli(logits=end[..., 0]).log_prob(x[..., 2])
        torch.testing.assert_close(theirs, movement + ends, rtol=1e-9, atol=1e-9)

    gaussian("gaussian_1_exp", (5,), 1, "exp")
    gaussian("gaussian_3_exp", (2, 3), 3, "exp")
    gaussian("gaussian_4_softplus", (2, 3), 4, "softplus")
    gaussian("gaussian_2_softplus_wide", (8,), 2, "softplus", scale=6.0)
    mixture("mixture_3x2_exp", (2, 4), 3, 2, "exp")
    mixture("mixture_4x1_softplus", (6,), 4, 1, "softplus")
    mixture("mixture_1x3_exp", (3,), 1, 3, "exp")
    stroke("stroke_4", (2, 5), 4)
    stroke("stroke_correlated", (2, 4), 3, correlation=3.0)
    return file


if __name__ == "__main__":
    density().save()
