"""Makes `count.json`, the numbers of parameters of PyTorch's modules, for the tests of counting. Run it without arguments."""

import json

import torch
from torch import nn

from reference import HERE


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def main():
    cases = []

    def add(kind, module, **sizes):
        cases.append({"kind": kind, **sizes, "parameters": size(module)})

    shapes = [(8, 2, 12), (16, 4, 8), (32, 1, 64), (64, 8, 200)]
    for d_model, n_heads, d_ff in shapes:
        sizes = {"d_model": d_model, "n_heads": n_heads, "d_ff": d_ff}
        for bias in (True, False):
            attention = nn.MultiheadAttention(d_model, n_heads, bias=bias)
            add("attention", attention, d_model=d_model, n_heads=n_heads, bias=bias)
        add("encoder_layer", nn.TransformerEncoderLayer(d_model, n_heads, d_ff), **sizes)
        add("decoder_layer", nn.TransformerDecoderLayer(d_model, n_heads, d_ff), **sizes)
        # PyTorch's Transformer always has a last norm in each half; ours has it with pre-norm, so that is compared.
        whole = nn.Transformer(d_model, n_heads, 2, 3, d_ff, norm_first=True)
        add("transformer", whole, **sizes, n_layers=2, n_decoder_layers=3)
    for cell, module in [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)]:
        for d_in, d_hidden, n_layers, both, bias in [
            (3, 5, 1, False, True), (5, 5, 3, False, True), (4, 6, 2, True, True), (7, 2, 3, True, False),
        ]:  # fmt: skip
            made = module(d_in, d_hidden, n_layers, bidirectional=both, bias=bias)
            add(cell, made, d_in=d_in, d_hidden=d_hidden, n_layers=n_layers, both=both, bias=bias)
    add("embedding", nn.Embedding(11, 6), vocab=11, d_model=6)
    text = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "count.json").write_text(f'{{"origin": "golden/count.py, PyTorch {torch.__version__}", "cases": [\n{text}\n]}}\n')
    print(len(cases), "cases")


main()
