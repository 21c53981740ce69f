#!/usr/bin/env python3
"""Compares the automatic choice with the plain defaults on real data and on parts of them, and prints a table.

    bench/auto_table.py --data $REGARD_DATA [--only tatoeba] [--parts 0.05,0.2,1] [--threads 1] [--prefix "nice -n 19"]
    bench/auto_table.py --data $REGARD_DATA --print      # only what has been run so far

For each data set and each part of it two models are trained, one with `--set auto=off`, and both are scored on the same dev
split. Everything is written to runs/auto (or --out): parts of data, model folders, results.jsonl. A run that is in results.jsonl
is not repeated, and one that was interrupted is resumed, so that the script can be stopped and started again.
"""

import argparse
import gzip
import hashlib
import io
import json
import pathlib
import shlex
import subprocess
import sys
import tarfile
import time


def opened(path):
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")


def chance(text):
    """A number from 0 to below 1 by a hash of a text, so that a smaller part is in a larger one."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


def split_of(text):
    """The split of an example: 5 % dev and 5 % test, by a hash that does not depend on the part."""
    place = chance("split\t" + text)
    return "dev" if place < 0.05 else "test" if place < 0.1 else "train"


def lines_by_hash(name, key=lambda line: line, header=False):
    """A data set of one file of lines, cut into a folder with three files; dev and test are the same for all parts."""

    def part(source, folder, share):
        with opened(source) as file:
            lines = file.read().splitlines(keepends=True)
        head, lines = (lines[:1], lines[1:]) if header else ([], lines)
        for split in ("train", "dev", "test"):
            kept = [line for line in lines if split_of(key(line)) == split and (split != "train" or chance(key(line)) < share)]
            (folder / f"{split}.{name}").write_text("".join(head + kept), encoding="utf-8")
        return folder

    return part


def beginning(source, folder, share):
    """A book: the last tenth is dev and test, the part is the beginning of the rest."""
    with opened(source) as file:
        text = file.read()
    ends = [int(len(text) * at) for at in (0.9, 0.95, 1)]
    for split, (start, end) in dict(train=(0, int(ends[0] * share)), dev=ends[:2], test=ends[1:]).items():
        (folder / f"{split}.txt").write_text(text[start:end], encoding="utf-8")
    return folder


def fewer_rows(source, folder, share):
    """Rows of a table in a folder; only its training file gets smaller."""
    for path in source.iterdir():
        with opened(path) as file:
            head, *rows = file.read().splitlines(keepends=True)
        kept = [row for row in rows if not path.name.startswith("train.") or chance(row) < share]
        (folder / path.with_suffix("").name).write_text("".join([head, *kept]), encoding="utf-8")
    return folder


def fewer_segments(source, folder, share):
    """Digits of UNIPEN files; a twentieth of those to train on is dev for all parts."""
    for path in source.iterdir():
        with opened(path) as file:
            head, *segments = file.read().split(".SEGMENT")
        splits = {"test": segments}
        if "train" in path.name:
            dev = [segment for segment in segments if split_of(segment) == "dev"]
            rest = [segment for segment in segments if split_of(segment) != "dev" and chance(segment) < share]
            splits = {"train": rest, "dev": dev}
        for split, kept in splits.items():
            (folder / f"{split}.unipen").write_text(".SEGMENT".join([head, *kept]))
    return folder


def fewer_nodes(source, folder, share):
    """Nodes of a graph; training nodes that are left out stay in it without being learnt from."""
    with opened(source / "nodes.tsv.gz") as file:
        lines = file.read().splitlines()
    split = lines[0].split("\t").index("split")
    seen = {}
    for number, line in enumerate(lines):
        cells = line.split("\t")
        if cells[split] == "train":
            # The same share of each label, and at least one node.
            label = cells[lines[0].split("\t").index("label")]
            seen[label] = seen.get(label, 0) + 1
            if seen[label] > max(1, round(20 * share)):
                cells[split] = "none"
                lines[number] = "\t".join(cells)
    (folder / "nodes.tsv").write_text("\n".join(lines) + "\n")
    with opened(source / "edges.tsv.gz") as file:
        (folder / "edges.tsv").write_text(file.read())
    return folder


def fewer_recordings(source, folder, share):
    """Recordings {digit}_{speaker}_{index}.wav; those with indices below 10 are dev and test."""
    target = folder / "recordings.tar"
    with tarfile.open(source) as archive, tarfile.open(target, "w") as part:
        for member in archive:
            name = pathlib.PurePath(member.name)
            if name.suffix == ".wav" and int(name.stem.split("_")[2]) < 10 + round(40 * share):
                part.addfile(member, io.BytesIO(archive.extractfile(member).read()))
    return target


def column(number):
    return lambda line: line.rstrip("\n").split("\t")[number]


def sets(data, fashion):
    """All data sets: name, task, path, further arguments, main score, and how a part is made (by a flag or as a file)."""
    english, french = lines_by_hash("tsv", column(0)), lines_by_hash("tsv", column(1))
    share = lambda part: ["--set", f"data.share={part}"]
    limit = lambda part: ["--set", f"data.limit={round(55000 * part)}"]
    held = ["--set", "data.test_index=0-4", "--set", "data.dev_index=5-9"]
    backwards = ["--set", "data.source=2", "--set", "data.target=1"]
    table, names = lines_by_hash("tsv", header=True), lines_by_hash("txt")
    return [
        ("finnish", "tag", data / "ud-finnish-tdt-small", [], "accuracy", share),
        ("snips slots", "tag", data / "snips/slots", [], "f1", share),
        ("ewt", "tag", data / "ud-english-ewt", [], "accuracy", share),
        ("snips intents", "classify", data / "snips/intents", [], "accuracy", fewer_rows),
        ("polarity", "classify", data / "sentence-polarity/polarity.tsv.gz", [], "accuracy", table),
        ("tatoeba en→fr", "translate", data / "tatoeba-fra-eng/fra.txt.gz", [], "bleu", english),
        ("tatoeba fr→en", "translate", data / "tatoeba-fra-eng/fra.txt.gz", backwards, "bleu", french),
        ("tinyshakespeare", "generate", data / "tinyshakespeare/input.txt", [], "bits_per_character", beginning),
        ("names", "generate", data / "names/names.txt", [], "bits_per_character", names),
        ("tinyshakespeare", "pretrain", data / "tinyshakespeare/input.txt", [], "loss", beginning),
        ("tinyshakespeare", "words", data / "tinyshakespeare/input.txt", [], "loss", beginning),
        ("pendigits", "vectors", data / "pendigits", [], "accuracy", fewer_segments),
        ("spoken digits", "speech", data / "free-spoken-digits/recordings.tar.xz", held, "accuracy", fewer_recordings),
        ("cora", "graph", data / "cora", [], "accuracy", fewer_nodes),
        ("fashion", "image", fashion, ["--set", "data.dev=5000"], "accuracy", limit),
    ]


def run(command, prefix):
    return subprocess.run([*prefix, *command], capture_output=True, text=True)


def scored(regard, folder, main, prefix, threads):
    """Scores of the whole dev split, and the parameters that the run has kept."""
    done = run([regard, "eval", str(folder), "--split", "dev", "--json", *threads], prefix)
    if done.returncode != 0:
        return None, done.stderr.strip()[-300:]
    return json.loads(done.stdout)["metrics"].get(main), ""


def trained(regard, task, data, flags, folder, prefix, threads):
    """Trains a model, or resumes its training; returns the seconds it took, training and scoring."""
    start = time.time()
    command = [regard, "train", task, "--out", str(folder), "--json", *threads]
    if (folder / "config.json").exists():
        done = run([*command, "--resume"], prefix)
    else:
        done = run([*command, "--data", str(data), *flags], prefix)
    return time.time() - start, done


def table(results):
    print("| task, data | part | score on dev | plain defaults | automatic | time, plain and automatic | what it chose |")
    print("|---|---|---|---|---|---|---|")
    rows = {}
    for result in results:
        rows.setdefault((result["task"], result["set"], result["part"], result["main"]), {})[result["auto"]] = result
    for (task, name, part, main), pair in rows.items():
        off, on = pair.get("off"), pair.get("on")
        score = lambda result: "–" if not result or result["score"] is None else shown(main, result["score"])
        seconds = " and ".join(f"{result['seconds']:.0f} s" if result else "–" for result in (off, on))
        lines = "<br>".join(f"`{line.removeprefix('auto: ')}`" for line in (on or {}).get("chosen", []))
        print(f"| `{task}`, {name} | {100 * part:g} % | {main} | {score(off)} | {score(on)} | {seconds} | {lines} |")


def shown(main, score):
    percent = main in ("accuracy", "f1")
    return f"{100 * score:.2f} %" if percent else f"{score:.2f}" if main == "bleu" else f"{score:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with the published data sets")
    parser.add_argument("--fashion", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/auto"))
    parser.add_argument("--regard", default="target/release/regard")
    parser.add_argument("--only", default="", help="only sets whose task and name contain this text")
    parser.add_argument("--parts", default="0.05,0.2,1")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--prefix", default="", help="command that runs the trainings, such as nice")
    parser.add_argument("--print", action="store_true", help="only print the table of what has been run")
    asked = parser.parse_args()
    journal = asked.out / "results.jsonl"
    results = [json.loads(line) for line in open(journal)] if journal.exists() else []
    known = {(r["task"], r["set"], r["part"], r["auto"]) for r in results}
    prefix, threads = shlex.split(asked.prefix), ["--threads", asked.threads]
    for name, task, source, flags, main_score, make in [] if asked.print else sets(asked.data, asked.fashion):
        if asked.only not in f"{task} {name}" or not source.exists():
            continue
        for part in map(float, asked.parts.split(",")):
            place = asked.out / f"{task}-{name}-{part:g}".replace(" ", "-").replace("→", "-")
            place.mkdir(parents=True, exist_ok=True)
            data, own = source, list(flags)
            if make.__name__ == "<lambda>":
                own += make(part)
            elif part < 1 or make in (fewer_segments, fewer_recordings) or not source.is_dir():
                folder = place / "data"
                folder.mkdir(exist_ok=True)
                data = make(source, folder, part)
            for auto in ("off", "on"):
                if (task, name, part, auto) in known:
                    continue
                print(f"{task} {name} {part:g} auto={auto}", file=sys.stderr, flush=True)
                folder = place / auto
                arguments = own + ["--set", f"auto={auto}"]
                seconds, done = trained(asked.regard, task, data, arguments, folder, prefix, threads)
                if done.returncode != 0:
                    print(done.stderr.strip()[-600:], file=sys.stderr)
                    if done.returncode in (130, 143):
                        sys.exit(done.returncode)
                score, problem = scored(asked.regard, folder, main_score, prefix, threads)
                if problem:
                    print(problem, file=sys.stderr)
                    continue
                chosen = json.loads((folder / "config.json").read_text()).get("chosen", [])
                result = dict(task=task, set=name, part=part, auto=auto, main=main_score, score=score, seconds=seconds, chosen=chosen)
                results.append(result)
                with open(journal, "a") as file:
                    file.write(json.dumps(result, ensure_ascii=False) + "\n")
    table(results)


if __name__ == "__main__":
    main()
