"""The other programs' side of `bench/checkpoints`: reads lines of `{"seconds"}`, answers with lines of `{"ms", "version"}`.

    peer_checkpoints.py PROGRAM WORK FOLDER [TEXTS]

PROGRAM is transformers, sentence-transformers, onnxruntime or ctranslate2. All compute in float32 on REGARD_THREADS threads. A call
begins with texts or tokens and ends with vectors or tokens, as one of `regard bench checkpoint` does.
"""

import json
import os
import pathlib
import resource
import sys
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
THREADS = int(os.environ.get("REGARD_THREADS", "2"))
BATCH = 32


def token(row, at):
    return (row * 131 + at * 7919) % 10000 + 3


def lines(path):
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


def sizes(work):
    return [int(size) for size in work.split("/")[1].split("x")]


def pooled(states, mask):
    import torch

    mask = mask[:, :, None].to(states.dtype)
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


def with_transformers(work, folder, texts):
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    version = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"
    if work.startswith("embed"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()

        def call():
            found = []
            for first in range(0, len(texts), BATCH):
                given = tokenizer(texts[first : first + BATCH], padding=True, truncation=True, max_length=256, return_tensors="pt")
                found.append(pooled(model(**given).last_hidden_state, given["attention_mask"]))
            return torch.cat(found)

    elif work.startswith(("prompt", "generate")):
        model = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()
        prompt, count = (sizes(work) + [1])[:2]
        ids = torch.tensor([[token(0, at) for at in range(prompt)]])
        plan = dict(max_new_tokens=count, min_new_tokens=count, do_sample=False, num_beams=1, pad_token_id=0)

        def call():
            return model.generate(ids, attention_mask=torch.ones_like(ids), **plan)

    else:
        model = transformers.MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
        rows, source, count, beams = sizes(work)
        ids = torch.tensor([[token(row, at) for at in range(source)] for row in range(rows)])
        plan = dict(max_new_tokens=count, min_new_tokens=count, do_sample=False, num_beams=beams, bad_words_ids=None, forced_eos_token_id=None)

        def call():
            return model.generate(ids, attention_mask=torch.ones_like(ids), **plan)

    def quietly():
        with torch.inference_mode():
            return call()

    return quietly, version


def with_sentence_transformers(work, folder, texts):
    import sentence_transformers
    import torch

    torch.set_num_threads(THREADS)
    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    call = lambda: model.encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
    return call, f"sentence-transformers {sentence_transformers.__version__}"


def with_onnxruntime(work, folder, texts):
    """Batches of 32 texts of similar length, as sentence-transformers makes them."""
    import numpy
    import onnxruntime
    import tokenizers

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(str(pathlib.Path(folder) / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"])
    names = {given.name for given in session.get_inputs()}
    tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()

    def call():
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        found = numpy.zeros((len(texts), 384), numpy.float32)
        for first in range(0, len(texts), BATCH):
            some = order[first : first + BATCH]
            encoded = tokenizer.encode_batch([texts[at] for at in some])
            ids = numpy.array([one.ids for one in encoded], numpy.int64)
            mask = numpy.array([one.attention_mask for one in encoded], numpy.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
            states = session.run(None, {name: given[name] for name in names})[0]
            mean = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
            found[some] = mean / numpy.linalg.norm(mean, axis=1, keepdims=True)
        return found

    return call, f"onnxruntime {onnxruntime.__version__}"


def with_ctranslate2(work, folder, texts):
    import ctranslate2

    model = ctranslate2.Translator(str(pathlib.Path(folder) / "ctranslate2"), compute_type="float32", inter_threads=1, intra_threads=THREADS)
    rows, source, count, beams = sizes(work)
    given = [[f"t{token(row, at)}" for at in range(source)] for row in range(rows)]
    plan = dict(beam_size=beams, max_decoding_length=count, min_decoding_length=count, max_batch_size=rows)
    return lambda: model.translate_batch(given, **plan), f"CTranslate2 {ctranslate2.__version__}"


PROGRAMS = {
    "transformers": with_transformers,
    "sentence-transformers": with_sentence_transformers,
    "onnxruntime": with_onnxruntime,
    "ctranslate2": with_ctranslate2,
}


def least_ms(call, seconds):
    best, begin, calls = float("inf"), time.perf_counter(), 0
    while calls < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        calls += 1
    return best * 1e3


def main():
    program, work, folder = sys.argv[1:4]
    texts = lines(sys.argv[4]) if len(sys.argv) > 4 else []
    if work == "embed/one":
        texts = texts[:1]
    call, version = PROGRAMS[program](work, folder, texts)
    call()
    for line in sys.stdin:
        ms = least_ms(call, json.loads(line)["seconds"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"ms": ms, "version": version, "peak_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
