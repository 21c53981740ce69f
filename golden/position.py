"""Makes the references of positions by a recurrent network. Run it as it is; `reference.py` says what a file holds."""

import torch
from torch import nn

from reference import File


def position():
    """`out` are positions 0 and up: the start, then the states of a GRU under the constant input 1."""
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
        # A step more than is kept, because PyTorch takes no sequence of none.
        states, _ = torch.func.functional_call(layer, theirs, (torch.ones(1, seq, 1), start[None, None]))
        case.differentiate(out=torch.cat([start[None], states[0, :-1]]))
    return file


if __name__ == "__main__":
    position().save()
