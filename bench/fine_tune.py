#!/usr/bin/env python3
"""Fine-tunes an encoder on labelled sentences with Regard and with PyTorch, by the same recipe on the same split, and prints a table.

    bench/fine_tune.py --model all-MiniLM-L6-v2 --data polarity.tsv.gz --folds 1,2,3 [--ways whole,lora] [--threads 1] [--sides ours,torch]
    bench/fine_tune.py --model all-MiniLM-L6-v2 --data polarity.tsv.gz --speed 40 [--rounds 3] [--threads 2]

For each fold, part k of 10 is the test split and 5 % of the rest the dev split, as with `data.fold=k/10`. Both sides read the same
three files, batches of 32, and use AdamW (weight decay 0.01 on matrices, gradients clipped to 1) with a rate that rises for a tenth
of the steps and falls linearly to 0. Dev is scored six times, and the test split once, with the weights that are best on dev. Adapters are for
queries and values, of rank 8, with alpha 16. PyTorch's side needs `transformers`, and `peft` for adapters. Everything is written to runs/fine-tune; a result
that is there already is not computed again.

With --speed both sides make that many steps in turn on the first fold, and the script prints the time of a step: the mean of a round
without its first ten steps, and the least of the rounds.
"""

import argparse
import csv
import gzip
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from splits import hash64

BATCH = 32
RATES = {"whole": 5e-5, "lora": 5e-4}
EPOCHS = {"whole": 2, "lora": 3}
# Steps that are not timed.
WARM = 10
LORA = {"r": 8, "lora_alpha": 16, "target_modules": ["query", "value"]}


def rows(path):
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as file:
        return [(row["text"], row["label"]) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def split(examples, fold, folds=10):
    """Returns the three parts of a file, as crates/data/src/split.rs cuts them."""
    parts = {"train": [], "dev": [], "test": []}
    for text, label in examples:
        number = hash64(text)
        is_test = (number >> 32) * folds >> 32 == fold - 1
        is_dev = (number & 0xFFFFFFFF) * 20 >> 32 == 1
        parts["test" if is_test else "dev" if is_dev else "train"].append((text, label))
    return parts


def files(parts, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, examples in parts.items():
        lines = ["text\tlabel"] + [f"{text}\t{label}" for text, label in examples]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def recipe(way, examples):
    steps = EPOCHS[way] * -(-examples // BATCH)
    return {"steps": steps, "warmup": steps // 10, "rate": RATES[way], "every": -(-steps // 6)}


def ours(args, way, folder, count, out, chosen):
    settings = {
        "auto": "off", "model.from": args.model, "train.steps": chosen["steps"], "train.warmup": chosen["warmup"], "train.learning_rate": chosen["rate"],
        "train.evaluate_every": chosen["every"], "train.checkpoint_every": chosen["every"], "train.batch_examples": BATCH, "train.batch_tokens": 100_000,
    }
    if way == "lora":
        settings |= {"lora.rank": LORA["r"], "lora.alpha": LORA["lora_alpha"], "lora.targets": ",".join(LORA["target_modules"])}
    command = shlex.split(args.prefix) + [args.regard, "train", "classify", "--data", str(folder), "--out", str(out), "--json", "--threads", str(args.threads)]
    command += ["--seed", str(args.seed)] + [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    quiet = subprocess.DEVNULL if args.speed else None
    last = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=quiet, text=True).stdout.splitlines()[-1]
    found = json.loads(last)
    dev = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    best = max(line["metrics"]["accuracy"] for line in dev if "metrics" in line)
    return {"dev": best, "test": found["metrics"]["accuracy"], "minutes": found["seconds"] / 60}


def our_step(args, way, folder, count, out):
    """Returns the milliseconds of a step."""
    shutil.rmtree(out, ignore_errors=True)
    ours(args, way, folder, count, out, {"steps": args.speed, "warmup": 1, "rate": RATES[way], "every": args.speed})
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line.get("split") == "train" and line["step"] >= WARM]
    return 1e3 * (steps[-1]["seconds"] - steps[0]["seconds"]) / (steps[-1]["step"] - steps[0]["step"])


def theirs(args, way, parts, chosen):
    import torch
    import transformers

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    labels = sorted({label for _, label in parts["train"]})
    model = transformers.AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=len(labels), dtype=torch.float32)
    if way == "lora":
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", **LORA))
    encoded = {name: [(tokenizer(text, truncation=True, max_length=256)["input_ids"], labels.index(label)) for text, label in part] for name, part in parts.items()}
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trained if weight.dim() > 1], "weight_decay": 0.01},
        {"params": [weight for weight in trained if weight.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=chosen["rate"], betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, chosen["warmup"], chosen["steps"])

    def batch(some):
        width = max(len(ids) for ids, _ in some)
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in some])
        mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in some])
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([label for _, label in some])}

    def score(part):
        model.eval()
        right = 0
        part = sorted(part, key=lambda example: len(example[0]))
        with torch.no_grad():
            for first in range(0, len(part), 128):
                given = batch(part[first : first + 128])
                right += (model(**given).logits.argmax(1) == given["labels"]).sum().item()
        model.train()
        return right / len(part)

    def order():
        """Batches of similar length in a random order, as Regard makes them."""
        numbers = torch.randperm(len(encoded["train"])).tolist()
        batches = []
        for first in range(0, len(numbers), 100 * BATCH):
            pool = sorted(numbers[first : first + 100 * BATCH], key=lambda at: len(encoded["train"][at][0]))
            batches += [pool[at : at + BATCH] for at in range(0, len(pool), BATCH)]
        return [batches[at] for at in torch.randperm(len(batches)).tolist()]

    best, kept, seconds, plan, warm = -1, None, 0.0, [], 0.0
    model.train()
    for step in range(1, chosen["steps"] + 1):
        plan = plan or order()
        begin = time.time()
        optimizer.zero_grad()
        model(**batch([encoded["train"][at] for at in plan.pop()])).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
        seconds += time.time() - begin
        if args.speed:
            warm = seconds if step == WARM else warm
            if step == chosen["steps"]:
                return 1e3 * (seconds - warm) / (step - WARM)
            continue
        if step % chosen["every"] == 0 or step == chosen["steps"]:
            found = score(encoded["dev"])
            print(f"  torch {way} step {step}: dev {found:.4f}, {seconds / 60:.1f} min", file=sys.stderr)
            if found > best:
                best, kept = found, {name: weight.clone() for name, weight in model.state_dict().items()}
    model.load_state_dict(kept)
    return {"dev": best, "test": score(encoded["test"]), "minutes": seconds / 60}


def speed(args, examples):
    parts = split(examples, 1)
    folder, count = files(parts, args.out / "fold-1"), len(parts["train"])
    for way in args.ways.split(","):
        rounds = []
        for _ in range(args.rounds):
            plan = {"steps": args.speed, "warmup": 1, "rate": RATES[way], "every": args.speed}
            rounds.append((our_step(args, way, folder, count, args.out / f"speed-{way}"), theirs(args, way, parts, plan)))
            print(f"  {way}: ours {rounds[-1][0]:.0f} ms, PyTorch {rounds[-1][1]:.0f} ms", file=sys.stderr)
        ours_ms, theirs_ms = (min(one[side] for one in rounds) for side in (0, 1))
        print(f"{way}: a step of {BATCH} texts takes {ours_ms:.0f} ms, in PyTorch {theirs_ms:.0f} ms: {theirs_ms / ours_ms:.2f} times as long")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--folds", default="1")
    parser.add_argument("--ways", default="whole,lora")
    parser.add_argument("--sides", default="ours,torch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=int, metavar="STEPS", help="only time a step, over this many steps, more than 10")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of --speed (default 3)")
    parser.add_argument("--regard", default="target/release/regard")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/fine-tune"))
    args = parser.parse_args()
    examples = rows(args.data)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.speed:
        if args.speed <= WARM:
            sys.exit(f"--speed: expected more than {WARM} steps")
        return speed(args, examples)
    journal = args.out / "results.jsonl"
    done = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    for fold in map(int, args.folds.split(",")):
        parts = split(examples, fold)
        folder = files(parts, args.out / f"fold-{fold}")
        for way in args.ways.split(","):
            for side in args.sides.split(","):
                run = {"fold": fold, "way": way, "side": side, "seed": args.seed}
                if any(run.items() <= one.items() for one in done):
                    continue
                chosen = recipe(way, len(parts["train"]))
                if side == "ours":
                    found = ours(args, way, folder, len(parts["train"]), args.out / f"{way}-{fold}-{args.seed}", chosen)
                else:
                    found = theirs(args, way, parts, chosen)
                done.append(run | found)
                with journal.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    print("| fold | way | side | dev | test | minutes |\n|---|---|---|---|---|---|")
    for one in sorted(done, key=lambda one: (one["way"], one["fold"], one["side"])):
        print(f"| {one['fold']} | {one['way']} | {one['side']} | {100 * one['dev']:.2f} | {100 * one['test']:.2f} | {one['minutes']:.1f} |")


if __name__ == "__main__":
    main()
