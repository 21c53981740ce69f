#!/usr/bin/env python3
"""Lets a recogniser that has seen only real digits read the digits of a handwriting model.

Lines of random digits are written at several biases and cut where the strongest character of the window changes. Each piece is
read by a model of `regard train vectors`; it is right if it reads the character of the text. Needs no Python package:

    regard data make write --from pendigits --out digits
    regard train write --config configs/write-pendigits.toml --data digits --out runs/writer
    regard train vectors --config configs/vectors-pendigits.toml --data pendigits --out runs/reader
    bench/read_digits.py runs/writer runs/reader
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{' '.join(command[:3])} failed: {done.stderr}")
    return done.stdout


def pieces(line):
    """Returns the points of each character as `[x, y, end of stroke]`, with `y` upwards as in UNIPEN."""
    found = {}
    for stroke, characters in zip(line["strokes"], line["characters"]):
        for index, ((x, y), character) in enumerate(zip(stroke, characters)):
            ends = index + 1 == len(stroke) or characters[index + 1] != character
            found.setdefault(character, []).append([x, -y, 1.0 if ends else 0.0])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("writer", help="model folder of regard train write")
    parser.add_argument("reader", help="model folder of regard train vectors")
    parser.add_argument("--regard", default="regard", help="the program (default: regard)")
    parser.add_argument("--lines", type=int, default=100, help="lines at each bias (default: 100)")
    parser.add_argument("--bias", type=float, nargs="*", default=[0.0, 0.5, 1.0, 2.0])
    options = parser.parse_args()

    draw = random.Random(1)
    texts = ["".join(draw.choice("0123456789") for _ in range(6)) for _ in range(options.lines)]
    real = json.loads(run(options.regard, "eval", options.reader, "--json"))
    print(f"real digits of the {real.get('split', 'held-out')} split: {100 * real['metrics']['accuracy']:.1f} % right")
    for bias in options.bias:
        written = run(options.regard, "generate", options.writer, "\n".join(texts), "--bias", str(bias), "--json")
        lines = json.loads(written)
        wanted, given = [], []
        for line in lines:
            found = pieces(line)
            for index, digit in enumerate(line["text"]):
                wanted.append(digit)
                # A digit without a point of its own is read as a single point, which is wrong.
                given.append({"vectors": found.get(index, [[0.0, 0.0, 1.0]])})
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write("".join(json.dumps(one) + "\n" for one in given))
            file.flush()
            read = run(options.regard, "predict", options.reader, "--input", file.name, "--json")
        labels = [json.loads(line).get("label") for line in read.splitlines()]
        right = sum(label == digit for label, digit in zip(labels, wanted))
        ends = sum(line["finished"] for line in lines)
        print(f"bias {bias:g}: {100 * right / len(wanted):.1f} % of {len(wanted)} digits right, {ends} of {len(lines)} lines finished")


if __name__ == "__main__":
    main()
