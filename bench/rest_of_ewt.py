#!/usr/bin/env python3
"""Prints the raw text of the sentences that `regard train tag --set data.share=S` does not use, for `train pretrain`.

    bench/rest_of_ewt.py --share 0.05 train.conllu.gz > rest.txt
"""

import argparse
import gzip
import pathlib
import sys

import splits


def sentences(path):
    """Yields raw text and tokens of each sentence as `regard` reads them, without ranges and empty nodes."""
    opened = gzip.open if path.suffix == ".gz" else open
    text, tokens = None, []
    with opened(path, "rt", encoding="utf-8") as lines:
        for line in [*lines, "\n"]:
            line = line.rstrip("\r\n")
            if line.startswith("# text = "):
                text = line.removeprefix("# text = ")
            elif line and not line.startswith("#"):
                columns = line.split("\t")
                if columns[0].isdigit():
                    tokens.append(columns[1])
            elif not line and tokens:
                yield text or " ".join(tokens), tokens
                text, tokens = None, []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("file", type=pathlib.Path)
    options = parser.parse_args()
    for text, tokens in sentences(options.file):
        if not splits.is_shared(tokens, options.share):
            print(text)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"bench/rest_of_ewt.py: {error}")
