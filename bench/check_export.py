#!/usr/bin/env python3
"""Compares a classifier or tagger that Regard has trained from a checkpoint with its export in `transformers`, and its adapters in `peft`.

    bench/check_export.py RUN --texts texts.txt [--regard target/release/regard]

Exports RUN, a model folder of `regard train classify --set model.from=…`, loads the export with `transformers`, and compares the probabilities of all
labels for each line of the file. If RUN has adapters, they are also loaded onto the original checkpoint with `peft`. Language models are
compared by the tokens that they write after each line.
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
