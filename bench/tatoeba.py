#!/usr/bin/env python3
"""Trains an encoder-decoder Transformer in PyTorch on sentence pairs for some minutes, and scores it with sacrebleu.

    bench/tatoeba.py --data fra.txt.gz --like FOLDER [--minutes 40] [--beam 4] [--length-penalty 0.6] [--seed 1]
                     [--threads N] [--out FILE.tsv]

--data              lines of `source<TAB>target`, .gz allowed; held out by a hash of the source, as `regard train` does
--like              a model folder of `regard train translate`, which gives tokenizer, model, training and lengths
--minutes           minutes of training, without reading and scoring
--beam              number of hypotheses; 1 is greedy
--length-penalty    α in the division of a hypothesis' score by ((5 + length) / 6)^α
--out               file for sources, translations and references

A cosine schedule ends with the time: the steps of the whole run are estimated as those so far, divided by the share of
the time that has passed. Prints a line of JSON every minute and one at the end with `finished`.
"""

import argparse
import gzip
import json
import pathlib
import random
import sys
import time

import sacrebleu
import tokenizers
import torch

import peer_models
import splits
from peer_models import END, PAD, START, Refused

POOL = 100  # number of batches whose examples are sorted by length together


def read_pairs(path):
    opened = gzip.open if path.suffix == ".gz" else open
    pairs = []
    try:
        with opened(path, "rt", encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                columns = line.rstrip("\r\n").split("\t")
                if len(columns) < 2:
                    raise Refused(f"{path}, line {number}: no tab between source and target")
                pairs.append((columns[0].strip(), columns[1].strip()))
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {path}: {error}") from None
    if not pairs:
        raise Refused(f"{path} has no line")
    return pairs


def open_tokenizer(path):
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises nothing more specific
        raise Refused(f"cannot read {path}: {error}") from None


def encoded(tokenizer, texts):
    return [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]


def epochs(examples, budget, draw):
    """Yields batches for ever: examples are shuffled, sorted by length in pools and cut; then the batches are shuffled."""
    mean = sum(max(len(s), len(t)) for s, t in examples) / len(examples)
    pool = max(int(POOL * budget / mean), 1)
    while True:
        order = draw.sample(examples, len(examples))
        batches = []
        for at in range(0, len(order), pool):
            batch, longest = [], 0
            for source, target in sorted(order[at : at + pool], key=lambda pair: (len(pair[1]), len(pair[0]))):
                longest = max(longest, len(source), len(target))
                if batch and longest * (len(batch) + 1) > budget:
                    batches.append(batch)
                    batch, longest = [], max(len(source), len(target))
                batch.append((source, target))
            batches.append(batch)
        draw.shuffle(batches)
        for batch in batches:
            yield tuple(peer_models.padded([list(pair[side]) for pair in batch]) for side in (0, 1))


def folder_of_ours(folder):
    """Returns a folder's tokenizer, the description of its model and training, and its settings."""
    try:
        described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(f"{folder} is no folder of `regard train translate`: {error}") from None
    settings = described["config"]
    given = settings["train"]
    if "model" not in described:
        raise Refused(f"{folder}: PyTorch's side has no model of kind {settings['model']['kind']!r}")
    schedules = {"inverse_sqrt": "inverse_square_root", "cosine": "cosine", "constant": "constant"}
    if given["schedule"] not in schedules:
        raise Refused(f"{folder}: the schedule is {given['schedule']}, not one of {', '.join(schedules)}")
    kept = ("learning_rate", "warmup", "beta1", "beta2", "epsilon", "weight_decay", "label_smoothing", "clip")
    training = {key: given[key] for key in kept}
    training["schedule"] = schedules[given["schedule"]]
    training["least_learning_rate"] = given["learning_rate"] * given["final_rate"]
    training["steps"] = given["steps"] or 1  # set from the time that has passed
    return open_tokenizer(folder / "tokenizer.json"), {"model": described["model"], "training": training}, settings


def beam_search(translator, sources, size, alpha, longest):
    """Returns the best hypothesis of each source, as ids without start and end."""
    count = len(sources)
    keys_values, mask = translator.encode(peer_models.padded(sources))
    wide = lambda tensor: tensor.repeat_interleave(size, 0)
    memory = [(wide(k), wide(v)) for k, v in keys_values], None if mask is None else wide(mask)
    limits = [min(longest, 3 * len(source) + 10) for source in sources]
    caches = [[] for _ in translator.decoder]
    rows = torch.full((count * size, 1), START)
    scores = torch.full((count, size), float("-inf"))
    scores[:, 0] = 0.0  # all hypotheses start the same, so only one may branch
    finished = [[] for _ in range(count)]
    for length in range(1, max(limits) + 1):
        penalty = ((5 + length) / 6) ** alpha
        states = translator.decode(memory, rows[:, -1:], caches)
        chances = torch.log_softmax(translator.output(states[:, -1]), -1)
        chances[:, [PAD, START]] = float("-inf")
        vocab = chances.shape[-1]
        top, at = (scores[:, :, None] + chances.view(count, size, vocab)).flatten(1).topk(2 * size)
        origin, token = at // vocab, at % vocab
        ends = (token == END).tolist()
        keep = []
        for i in range(count):
            places = [j for j in range(2 * size) if not ends[i][j]][:size]
            keep.append(places)
            if len(finished[i]) >= size:
                continue
            # An end counts only among the best `size`; a lower one would not have been kept either.
            last = length >= limits[i]
            for j in [j for j in range(size) if ends[i][j]] + places[:last]:
                ids = rows[i * size + int(origin[i, j]), 1:].tolist() + [int(token[i, j])]
                finished[i].append((float(top[i, j]) / penalty, [one for one in ids if one != END]))
            if last:
                finished[i].extend([(float("-inf"), [])] * size)
        if all(len(one) >= size for one in finished):
            break
        keep = torch.tensor(keep)
        scores, token, origin = top.gather(1, keep), token.gather(1, keep), origin.gather(1, keep)
        chosen = (origin + torch.arange(count)[:, None] * size).flatten()
        rows = torch.cat([rows[chosen], token.view(-1, 1)], 1)
        if size > 1:
            for cache in caches:
                cache[:] = [tensor[chosen] for tensor in cache]
    return [max(one)[1] for one in finished]


def translate(translator, tokenizer, texts, options, longest, at_once=64):
    ids = encoded(tokenizer, texts)
    order = sorted(range(len(texts)), key=lambda i: len(ids[i]))
    out = [""] * len(texts)
    translator.eval()
    with torch.no_grad():
        for at in range(0, len(order), at_once):
            taken = order[at : at + at_once]
            sources = [ids[i][:longest] + [END] for i in taken]
            found = beam_search(translator, sources, options.beam, options.length_penalty, longest)
            for i, text in zip(taken, tokenizer.decode_batch(found, skip_special_tokens=True)):
                out[i] = text
    translator.train()
    return out


def score(texts, references):
    most = max(len(one) for one in references)
    streams = [[one[i] if i < len(one) else None for one in references] for i in range(most)]
    return sacrebleu.corpus_bleu(texts, streams).score, sacrebleu.corpus_chrf(texts, streams).score


def train(translator, training, batches, minutes):
    """Trains until the time is up and returns the results."""
    trainer = peer_models.Trainer(translator, training)
    spent, tokens, told, recent = 0.0, 0, 0, []
    while spent < 60 * minutes:
        start = time.perf_counter()
        if spent > 0:
            training["steps"] = trainer.steps * 60 * minutes / spent
        source, target = next(batches)
        loss = trainer.step(lambda: translator.loss(source, target, training["label_smoothing"]))
        spent += time.perf_counter() - start
        recent.append(float(loss))
        tokens += int((source != PAD).sum()) + int((target[:, 1:] != PAD).sum())
        if spent // 60 > told:
            told = spent // 60
            mean = sum(recent) / len(recent)
            print(json.dumps({"minutes": spent / 60, "steps": trainer.steps, "loss": mean}), flush=True)
            recent = []
    speed = tokens / max(spent, 1e-9)
    return {"minutes": spent / 60, "steps": trainer.steps, "tokens": tokens, "tokens_per_second": speed}


def options_from(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--like", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--length-penalty", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=peer_models.default_threads())
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args(arguments)
    if min(options.beam, options.threads) < 1 or options.minutes < 0:
        parser.error("--beam and --threads are at least 1, --minutes at least 0")
    return options


def main():
    options = options_from(sys.argv[1:])
    peer_models.use_threads(options.threads, options.seed)
    draw = random.Random(options.seed)
    tokenizer, description, settings = folder_of_ours(options.like)
    longest, budget = settings["data"]["max_length"], settings["train"]["batch_tokens"]
    model, training = peer_models.described(description)
    parts = {"train": [], "dev": [], "test": []}
    for pair in read_pairs(options.data):
        parts[splits.side(pair[0])].append(pair)
    sources = encoded(tokenizer, [source for source, _ in parts["train"]])
    targets = encoded(tokenizer, [target for _, target in parts["train"]])
    examples = [
        (source + [END], [START, *target, END])
        for source, target in zip(sources, targets)
        if len(source) <= longest and len(target) <= longest
    ]
    references = {}
    for source, target in parts["test"]:
        references.setdefault(source, []).append(target)

    translator = peer_models.Translator(model)
    result = train(translator, training, epochs(examples, budget, draw), options.minutes)
    start = time.perf_counter()
    texts = translate(translator, tokenizer, list(references), options, longest)
    bleu, chrf = score(texts, list(references.values()))
    if options.out:
        lines = ("\t".join([source, text, *right]) for (source, right), text in zip(references.items(), texts))
        options.out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(json.dumps({
        "finished": True,
        "bleu": bleu,
        "chrf": chrf,
        "sentences": len(texts),
        **result,
        "scoring_seconds": time.perf_counter() - start,
        "beam": options.beam,
        "parameters": sum(weight.numel() for weight in translator.parameters()),
        "samples": [[source, text] for source, text in list(zip(references, texts))[:: max(len(texts) // 8, 1)][:8]],
        "seed": options.seed,
        "peer": f"PyTorch {torch.__version__}",
        "threads": options.threads,
    }, ensure_ascii=False))  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(f"bench/tatoeba.py: {refused}")
    except KeyboardInterrupt:
        sys.exit(130)
