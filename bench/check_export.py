#!/usr/bin/env python3
"""Compares a model that Regard has trained with its export in `transformers`, and its adapters in `peft`.

    bench/check_export.py RUN --texts texts.txt [--regard target/release/regard]

Exports RUN, a model folder of `regard train`, loads the export with `transformers`, and compares what both make of each line of the file:
classifiers of texts and pictures (a line is a path) by the probabilities of all labels, masked language models by the most probable word
for each `<mask>`, language models by the tokens that they write after the line, translators by their translations (a beam search of a
translator of our own ranks differently: train it with `decode.size=1`). If RUN has adapters, they are also loaded onto the original
checkpoint with `peft`.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers


def predicted(regard, run, path):
    output = subprocess.run([regard, "predict", run, "--input", path, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def classified(model, tokenizer, texts):
    found = []
    for text in texts:
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
        found.append(logits.softmax(-1))
    return found


def pictures(model, folder, paths):
    from PIL import Image

    processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
    found = []
    for path in paths:
        with torch.no_grad():
            found.append(model(**processor(Image.open(path).convert("RGB"), return_tensors="pt")).logits[0].softmax(-1))
    return found


def filled(model, tokenizer, texts, ours):
    """Compares the most probable word for each mask, and its probability."""
    largest, same, count = 0.0, 0, 0
    for text, mine in zip(texts, ours):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            rows = model(ids).logits[0].softmax(-1)[ids[0] == tokenizer.convert_tokens_to_ids("<mask>")]
        for row, candidates in zip(rows, mine["candidates"]):
            best = row.argmax().item()
            largest = max(largest, abs(row[best].item() - candidates[0]["probability"]))
            same += tokenizer.decode([best]).strip() == candidates[0]["token"]
            count += 1
    print(f"{same} of {count} words are the same, probabilities differ by at most {largest:.1e}")
    return count > 0 and same == count and largest < 1e-4


def translated(model, tokenizer, texts, ours):
    same = 0
    for text, mine in zip(texts, ours):
        found = model.generate(tokenizer(text, return_tensors="pt")["input_ids"])[0]
        same += tokenizer.decode(found, skip_special_tokens=True).strip() == mine["translation"].strip()
    print(f"{same} of {len(texts)} translations are the same")
    return same == len(texts)


def compare(name, ours, theirs, names):
    largest, same = 0.0, 0
    for mine, other in zip(ours, theirs):
        probabilities = torch.tensor([mine["probabilities"][names[at]] for at in range(len(other))])
        largest = max(largest, (probabilities - other).abs().max().item())
        same += names[other.argmax().item()] == mine["label"]
    print(f"{name}: {same} of {len(ours)} labels are the same, probabilities differ by at most {largest:.1e}")
    return same == len(ours) and largest < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--regard", default="target/release/regard")
    args = parser.parse_args()
    texts = [line for line in pathlib.Path(args.texts).read_text().splitlines() if line.strip()]
    with tempfile.TemporaryDirectory() as place:
        lines, folder = pathlib.Path(place) / "lines.txt", pathlib.Path(place) / "export"
        lines.write_text("\n".join(texts) + "\n")
        subprocess.run([args.regard, "export", args.run, "--to", "hugging-face", folder], check=True)
        config = transformers.AutoConfig.from_pretrained(folder)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        if config.architectures[0].endswith(("ForCausalLM", "LMHeadModel")):
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
            right = 0
            for text in texts:
                command = [args.regard, "generate", args.run, text, "--temperature", "0", "--tokens", "16"]
                ours = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
                theirs = model.generate(ids, max_new_tokens=16, do_sample=False, pad_token_id=0)[0]
                right += tokenizer.decode(theirs, skip_special_tokens=True).strip() in ours or ours.strip().endswith(tokenizer.decode(theirs[ids.shape[1]:]).strip())
            print(f"{right} of {len(texts)} texts continue in the same way")
            sys.exit(right < len(texts))
        ours = predicted(args.regard, args.run, lines)
        names = config.id2label
        architecture = config.architectures[0]
        if architecture.endswith("ForMaskedLM"):
            model = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
            sys.exit(not filled(model, tokenizer, texts, ours))
        if config.is_encoder_decoder:
            model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
            sys.exit(not translated(model, tokenizer, texts, ours))
        if architecture.endswith("ForImageClassification"):
            model = transformers.AutoModelForImageClassification.from_pretrained(folder, dtype=torch.float32).eval()
            sys.exit(not compare("transformers", ours, pictures(model, folder, texts), names))
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
        equal = compare("transformers", ours, classified(model, tokenizer, texts), names)
        adapters = pathlib.Path(args.run) / "adapter_config.json"
        if adapters.exists():
            import peft

            base = json.loads(adapters.read_text())["base_model_name_or_path"]
            model = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=len(names), dtype=torch.float32)
            model = peft.PeftModel.from_pretrained(model, args.run).eval()
            equal &= compare("peft", ours, classified(model, tokenizer, texts), names)
        sys.exit(not equal)


if __name__ == "__main__":
    main()
