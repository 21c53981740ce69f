"""The code that all scripts that make `golden/*.safetensors` share.

Inputs are float32 numbers; PyTorch computes with them in float64, and results are rounded to float32 once. So a
reference is exact to half a unit in the last place, and making it again gives the same bytes.

A tensor of a file is called `case/name` and its gradient `case/grad_name`, where the loss is `sum(out * grad_out)` unless
the script says otherwise. The metadata has an entry for each case with its options as JSON. Weights are stored as in
PyTorch, `[d_out, d_in]`. Options such as `scale` are float32 numbers too.
"""

import json
import pathlib
import struct
import sys
import zlib

import numpy as np
import safetensors.torch
import torch

HERE = pathlib.Path(__file__).resolve().parent

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def single(number):
    """Returns the float32 number nearest to a number."""
    return float(np.float32(number))


class Case:
    """Random inputs by name, and the tensors to store. The numbers depend on the name of the case alone."""

    def __init__(self, file, name, **options):
        self.name, self.options, self.kept, self.leaves = name, options, {}, {}
        self.generator = torch.Generator().manual_seed(zlib.crc32(f"{file.name}/{name}".encode()))
        file.cases.append(self)

    def random(self, *shape, scale=1.0):
        return (torch.randn(*shape, generator=self.generator) * scale).float().double()

    def integers(self, high, *shape):
        return torch.randint(high, shape, generator=self.generator)

    def leaf(self, name, *shape, scale=1.0, value=None):
        """Returns an input that gets a gradient."""
        tensor = self.random(*shape, scale=scale) if value is None else value.float().double()
        self.leaves[name] = self.kept[name] = tensor.requires_grad_()
        return tensor

    def keep(self, **tensors):
        self.kept.update(tensors)

    def differentiate(self, **outputs):
        """Stores the outputs, random gradients of them, and the gradients of all leaves."""
        grads = {f"grad_{name}": self.random(*output.shape) for name, output in outputs.items()}
        inputs = torch.autograd.grad(list(outputs.values()), list(self.leaves.values()), list(grads.values()))
        self.keep(**outputs, **grads, **{f"grad_{name}": grad for name, grad in zip(self.leaves, inputs)})


class File:
    def __init__(self, name):
        self.name, self.cases = name, []

    def case(self, name, **options):
        return Case(self, name, **options)

    def save(self):
        tensors = {
            f"{case.name}/{name}": (tensor.float() if tensor.is_floating_point() else tensor).detach().contiguous()
            for case in self.cases
            for name, tensor in case.kept.items()
        }
        for name, tensor in tensors.items():
            assert not tensor.isnan().any(), f"{self.name}: {name} has NaN"
        metadata = {case.name: json.dumps(case.options) for case in self.cases}
        data = safetensors.torch.save(tensors, metadata | {"origin": f"golden/{pathlib.Path(sys.argv[0]).name}, PyTorch {torch.__version__}"})
        # The library writes the metadata in a random order.
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path = HERE / f"{self.name}.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
        print(f"{path.stat().st_size:7d}  {path.name}  {', '.join(case.name for case in self.cases)}")
        return path.stat().st_size
