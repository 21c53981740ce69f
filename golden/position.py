"""Makes the reference file of positions from a recurrent network. Run it without arguments; `reference.py` describes it."""

import torch
from torch import nn

from reference import File


def position():
    """`out` holds the positions from 0 on: the start, then the states of a GRU whose input is always 1."""
    file = File("recurrent_position")
    for name, seq, d_model in (("one", 1, 3), ("some", 6, 4), ("many", 40, 5)):
        case = file.case(name)
        start, weight = case.leaf("start", d_model), case.leaf("w_hh", 3 * d_model, d_model, scale=0.5)
        constant, bias = case.leaf("input", 3 * d_model, scale=0.5), case.leaf("bias_hh", 3 * d_model, scale=0.5)
        layer = nn.GRU(1, d_model, batch_first=True)
        theirs = {
            "weight_ih_l0": constant[:, None], "weight_hh_l0": weight, "bias_ih_l0": torch.zeros(3 * d_model),
            "bias_hh_l0": bias,
        }  # fmt: skip
        # One step more than is stored, because PyTorch refuses empty sequences.
        states, _ = torch.func.functional_call(layer, theirs, (torch.ones(1, seq, 1), start[None, None]))
        case.differentiate(out=torch.cat([start[None], states[0, :-1]]))
    return file


if __name__ == "__main__":
    position().save()
