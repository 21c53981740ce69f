#!/usr/bin/env python3
"""Compares the automatic choice with the plain defaults on real data and on parts of them, and prints a table.

    bench/auto_table.py --data $REGARD_DATA [--only tatoeba] [--parts 0.05,0.2,1] [--threads 1] [--prefix "nice -n 19"]
    bench/auto_table.py --print                          # only what has been run so far

For each data set and each part of it two models are trained, one with `--set auto=off`, and both are scored on the same dev
split. Some parts are also trained with a file of configs/, on the set that it was chosen on and on one that it was not chosen on. A row for each run is appended to bench/auto.jsonl; the last one of a run counts. A run that has a row is not repeated,
unless the program would now choose other settings, so that the script can be stopped and started again. Parts of data and
model folders are in runs/auto (or --out).

Time is CPU time: that of the process and of all its threads, which other work on the machine changes little. Half of it is
about what a quiet machine with two cores needs.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import auto_sets

LOWER_IS_BETTER = ("loss", "bits_per_character")
LONGEST = 10  # minutes on two cores
CONFIGS = pathlib.Path(__file__).parent.parent / "configs"


class Ran:
    """A process that has ended, with what it printed and the seconds it took."""

    def __init__(self, command):
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
            start = time.time()
            process = subprocess.Popen(command, stdout=out, stderr=error)
            try:
                _, status, usage = os.wait4(process.pid, 0)
            except KeyboardInterrupt:
                process.wait()
                raise
            process.returncode = self.code = os.waitstatus_to_exitcode(status)
            self.seconds, self.cpu = time.time() - start, usage.ru_utime + usage.ru_stime
            out.seek(0), error.seek(0)
            self.out, self.error = out.read(), error.read()


def key(row):
    return row["task"], row["set"], row["part"], row["auto"]


def latest(journal):
    """The last row of each run."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    return {key(row): row for row in map(json.loads, lines)}


def settings(lines):
    """The settings in the lines of a choice, without their reasons."""
    return [line.split(": ")[-1] for line in lines]


def chosen_now(asked, task, data, arguments):
    """The lines that the program prints for these data now."""
    ran = Ran([*asked.prefix, asked.regard, "data", "check", task, str(data), "--json", *arguments])
    if ran.code != 0:
        return None
    return [note for note in json.loads(ran.out)["notes"] if note.startswith("auto: ")]


def trained(asked, one, auto, data, arguments, folder, seed):
    """Trains a model with a seed and scores it on dev; returns the run, the score and what the folder says; `None` if it failed."""
    shutil.rmtree(folder, ignore_errors=True)
    threads = ["--threads", asked.threads]
    train = [asked.regard, "train", one.task, "--data", str(data), "--out", str(folder), "--json", "--seed", str(seed), *threads, *arguments]
    how = auto_sets.setting(f"auto={auto}") if auto in ("on", "off") else ["--config", str(CONFIGS / f"{auto}.toml")]
    ran = Ran([*asked.prefix, *train, *how])
    scored = Ran([*asked.prefix, asked.regard, "eval", str(folder), "--split", "dev", "--json", *threads])
    for failed in [process for process in (ran, scored) if process.code != 0]:
        print(failed.error.strip()[-600:], file=sys.stderr)
        return None
    saved = json.loads((folder / "config.json").read_text())
    return ran, json.loads(scored.out)["metrics"][one.score], saved


def measured(asked, one, part, auto, data, arguments, folder):
    """Trains a model with each seed and returns the row of the run, with the mean score and time; `None` if one failed."""
    runs = [trained(asked, one, auto, data, arguments, folder, seed) for seed in range(1, one.seeds + 1)]
    if not all(runs):
        return None

    def mean(values):
        return sum(values) / len(runs)

    tests = [(saved.get("scores") or {}).get(one.score) for _, _, saved in runs]
    return dict(
        task=one.task,
        set=one.name,
        part=part,
        auto=auto,
        main=one.score,
        score=mean(score for _, score, _ in runs),
        test=None if None in tests else mean(tests),
        seeds=one.seeds,
        seconds=round(mean(ran.seconds for ran, _, _ in runs), 1),
        cpu_seconds=round(mean(ran.cpu for ran, _, _ in runs), 1),
        chosen=runs[0][2].get("chosen", []),
        commit=asked.commit,
    )


def compare(asked, one, part):
    """Runs what is missing of a comparison."""
    place = asked.out / f"{one.task}-{one.name}-{part:g}".replace(" ", "-").replace("→", "-")
    (place / "data").mkdir(parents=True, exist_ok=True)
    data, arguments = one.part(one.source, place / "data", part)
    arguments = one.arguments + arguments
    for auto in ("off", "on", *([one.files[part]] if part in one.files else [])):
        known = latest(asked.journal).get((one.task, one.name, part, auto))
        if known and known.get("seeds", 1) != one.seeds:
            known = None
        if known and auto == "on":
            lines = chosen_now(asked, one.task, data, arguments)
            if lines and settings(lines) != settings(known["chosen"]):
                known = None
        if known:
            continue
        print(f"{one.task} {one.name} {part:g} auto={auto}", file=sys.stderr, flush=True)
        row = measured(asked, one, part, auto, data, arguments, place / auto)
        if row:
            print(f"  {shown(row)} dev, {row['cpu_seconds']:.0f} s of CPU time", file=sys.stderr, flush=True)
            with open(asked.journal, "a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


def shown(row):
    score = row["score"]
    if row["main"] in ("accuracy", "f1"):
        return f"{100 * score:.2f} %"
    return f"{score:.2f}" if row["main"] == "bleu" else f"{score:.4f}"


def minutes(row):
    return row["cpu_seconds"] / 2 / 60


def is_better(on, off):
    return on["score"] < off["score"] if on["main"] in LOWER_IS_BETTER else on["score"] > off["score"]


def print_table(rows):
    """Prints a table of all comparisons of which both runs have ended, then the lines of each choice."""
    sets = auto_sets.sets(pathlib.Path(), pathlib.Path())
    order = [(one.task, one.name) for one in sets]
    names = sorted({key(row)[:3] for row in rows.values()}, key=lambda name: (order.index(name[:2]), name[2]))
    both = [(name, rows.get((*name, "off")), rows.get((*name, "on"))) for name in names]
    both = [(name, off, on) for name, off, on in both if off and on]
    print("| task, data | part | score on dev | plain defaults | automatic | minutes, plain and automatic | commit |")
    print("|---|---|---|---|---|---|---|")
    for (task, name, part), off, on in both:
        name += ", new" if any((one.task, one.name, one.is_new) == (task, name, True) for one in sets) else ""
        score = f"**{shown(on)}**" if is_better(on, off) else shown(on)
        times = " and ".join(f"{minutes(row):.1f}" for row in (off, on))
        main = on["main"].replace("_", " ")
        print(f"| `{task}`, {name} | {100 * part:g} % | {main} | {shown(off)} | {score} | {times} | {on['commit']} |")
    better = sum(is_better(on, off) for _, off, on in both)
    long = [name for name, off, on in both if minutes(on) > LONGEST]
    print(f"\nThe automatic choice is better in {better} of {len(both)} comparisons.", end=" ")
    print(f"Longer than {LONGEST} minutes: {', '.join(map(str, long)) or 'none'}.")
    print("\n<details><summary>The three lines of each choice</summary>\n\n```")
    for (task, name, part), _, on in both:
        print(f"{task}, {name}, {100 * part:g} %")
        print("".join(f"  {line.removeprefix('auto: ')}\n" for line in on["chosen"]), end="")
    print("```\n\n</details>")


    print_files(rows, sets)


def print_files(rows, sets):
    """Prints a table of the configuration files."""
    print("\n| configuration | task, data | part | chosen on it | score on dev | on test | plain defaults and automatic on dev | minutes |")
    print("|---|---|---|---|---|---|---|---|")
    for one in sets:
        for part, file in one.files.items():
            row, off, on = (rows.get((one.task, one.name, part, auto)) for auto in (file, "off", "on"))
            if row and off and on:
                test = "–" if row["test"] is None else shown(row | dict(score=row["test"]))
                others = f"{shown(off)} and {shown(on)}"
                known = "no" if one.is_new else "yes"
                where = f"`{one.task}`, {one.name} | {100 * part:g} %"
                print(f"| {file}.toml | {where} | {known} | {shown(row)} | {test} | {others} | {minutes(row):.1f} |")


def main():
    here = pathlib.Path(__file__).parent
    head = subprocess.run(["git", "-C", here, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("REGARD_DATA"), help="folder with the published data sets")
    parser.add_argument("--fashion", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/auto"))
    parser.add_argument("--journal", type=pathlib.Path, default=here / "auto.jsonl", help="file with a row for each run")
    parser.add_argument("--regard", default="target/release/regard")
    parser.add_argument("--commit", default=head.stdout.strip(), help="commit that the program was built from")
    parser.add_argument("--only", default="", help="only sets whose task and name contain one of these texts, separated by commas")
    parser.add_argument("--parts", default="0.05,0.2,1")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--prefix", type=shlex.split, default=[], help="command that runs the trainings, such as nice")
    parser.add_argument("--print", action="store_true", help="only print the table of what has been run")
    asked = parser.parse_args()
    if not asked.print and asked.data is None:
        parser.error("--data FOLDER is needed, or REGARD_DATA")
    for part in [] if asked.print else map(float, asked.parts.split(",")):
        for one in auto_sets.sets(asked.data, asked.fashion):
            wanted = any(only in f"{one.task} {one.name}" for only in asked.only.split(","))
            if wanted and part in one.parts and one.source.exists():
                compare(asked, one, part)
    print_table(latest(asked.journal))


if __name__ == "__main__":
    main()
