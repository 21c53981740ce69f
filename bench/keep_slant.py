#!/usr/bin/env python3
"""Measures whether a handwriting model that is primed with a hand keeps its slant.

For each of some lines of a file of handwriting, the model goes on after it (`regard generate --prime`). The slant of strokes is
`Σ Δx Δy / Σ Δy²`, the mean movement to the side for each unit of height. Prints the correlation of the slants of the lines and of what was
written after them, and the same without priming. Needs no Python package:

    regard data make write --out words
    regard train write --data words --out runs/pen
    bench/keep_slant.py runs/pen words/test.jsonl
"""

import argparse
import json
import subprocess
import sys
import tempfile


def slant(strokes):
    pairs = [(b[0] - a[0], b[1] - a[1]) for stroke in strokes for a, b in zip(stroke, stroke[1:])]
    return -sum(dx * dy for dx, dy in pairs) / max(sum(dy * dy for _, dy in pairs), 1e-12)


def correlation(xs, ys):
    n, mx, my = len(xs), sum(xs) / len(xs), sum(ys) / len(ys)
    sxy = sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / n
    sx, sy = (sum((x - m) ** 2 for x in values) / n for values, m in ((xs, mx), (ys, my)))
    return sxy / max((sx * sy) ** 0.5, 1e-12)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="model folder of regard train write")
    parser.add_argument("lines", help="JSONL file of handwriting")
    parser.add_argument("--text", default="tell him why", help="text to write after each line")
    parser.add_argument("--count", type=int, default=40, help="number of lines (default: 40)")
    parser.add_argument("--bias", default="0.5")
    parser.add_argument("--regard", default="regard", help="the program (default: regard)")
    options = parser.parse_args()

    def write(seed, *more):
        command = [options.regard, "generate", options.model, options.text, "--bias", options.bias, "--json", "--seed", str(seed)]
        done = subprocess.run([*command, *more], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"regard generate failed: {done.stderr}")
        return slant(json.loads(done.stdout)["strokes"])

    given, primed, alone = [], [], []
    with open(options.lines) as file:
        lines = [line for line in file if line.strip()][: options.count]
    for seed, line in enumerate(lines):
        given.append(slant(json.loads(line)["strokes"]))
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prime:
            prime.write(line)
            prime.flush()
            primed.append(write(seed, "--prime", prime.name))
        alone.append(write(seed))
    print(f"{len(given)} lines; correlation with the slant of the line: primed {correlation(given, primed):.2f}, not primed {correlation(given, alone):.2f}")
    upright, leaning = (sorted(zip(given, primed))[s] for s in (slice(None, len(given) // 4), slice(-(len(given) // 4), None)))
    for name, part in (("least", upright), ("most", leaning)):
        means = [sum(values) / len(part) for values in zip(*part)]
        print(f"quarter of the lines that lean {name}: slant {means[0]:.2f}, written after them {means[1]:.2f}")


if __name__ == "__main__":
    main()
