"""Measures embeddings and streamed texts of `regard serve` beside other servers, all on loopback.

    python bench/serve.py target/release/regard --encoder FOLDER [--writer FOLDER] [--seconds 10] [--json FILE]

Embeddings per second, p50 and p99 at 1, 8 and 64 clients: ours, `infinity-emb` (`pip install infinity-emb[server,torch]`) and a plain
server of FastAPI and sentence-transformers. Streamed tokens per second and the time to the first token at 1 and 8 clients: ours and
`transformers serve`. A server that is not installed is left out. Servers run one after the other, each with the same number of
threads; every loop is bounded in count and time.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import httpx

PLAIN = '''
import sys
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer
import uvicorn

model = SentenceTransformer(sys.argv[1], device="cpu")
app = FastAPI()

@app.get("/health")
def health():
    return {}

@app.post("/v1/embeddings")
def embeddings(request: dict):
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    return {"data": [{"index": at, "embedding": row.tolist()} for at, row in enumerate(model.encode(texts))]}

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
'''
WORDS = "the a man woman dog cat monkey plays eats rides guitar drums horse food field white brown fast slowly".split()
MOST_REQUESTS = 20_000


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port: int, path: str, child: subprocess.Popen, seconds: int = 180) -> None:
    end = time.time() + seconds
    while time.time() < end:
        if child.poll() is not None:
            raise RuntimeError(f"the server ended with {child.returncode}")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1)
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("the server does not answer")


def texts(count: int) -> list[str]:
    """Sentences of 5 to 40 words, always the same."""
    draw = random.Random(7)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 40))) for _ in range(count)]


async def embed(port: int, model: str, clients: int, seconds: float) -> dict:
    """Lets clients ask, one text per request, each after its last answer."""
    inputs, took, asked = texts(1_000), [], 0
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=60) as http:

        async def one(until: float, keep: bool) -> None:
            nonlocal asked
            while time.perf_counter() < until and asked < MOST_REQUESTS:
                asked += 1
                start = time.perf_counter()
                answer = await http.post("/v1/embeddings", json={"model": model, "input": inputs[asked % len(inputs)]})
                answer.raise_for_status()
                if keep:
                    took.append(time.perf_counter() - start)

        warm = time.perf_counter() + min(2.0, seconds)
        await asyncio.gather(*(one(warm, False) for _ in range(clients)))
        asked, start = 0, time.perf_counter()
        await asyncio.gather(*(one(start + seconds, True) for _ in range(clients)))
        elapsed = time.perf_counter() - start
    took.sort()
    at = lambda share: 1e3 * took[min(len(took) - 1, int(share * len(took)))]
    return {"clients": clients, "per_second": len(took) / elapsed, "p50_ms": at(0.5), "p99_ms": at(0.99)}


async def stream(port: int, model: str, route: str, clients: int, tokens: int) -> dict:
    """Lets each client read one streamed text, twice; the second time counts."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=300) as http:

        async def one() -> tuple[float, int]:
            start, first, count = time.perf_counter(), 0.0, 0
            asked = {"model": model, "max_tokens": tokens, "temperature": 0, "stream": True}
            prompt = "Once upon a time there was a small"
            asked |= {"prompt": prompt} if route == "/v1/completions" else {"messages": [{"role": "user", "content": prompt}]}
            async with http.stream("POST", route, json=asked) as answer:
                answer.raise_for_status()
                async for line in answer.aiter_lines():
                    if line.startswith("data: {"):
                        count += 1
                        first = first or time.perf_counter() - start
            return first, count

        await asyncio.gather(*(one() for _ in range(clients)))
        start = time.perf_counter()
        found = await asyncio.gather(*(one() for _ in range(clients)))
        elapsed = time.perf_counter() - start
    first = sorted(first for first, _ in found)[len(found) // 2]
    return {"clients": clients, "events_per_second": sum(n for _, n in found) / elapsed, "first_ms": 1e3 * first}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--encoder", required=True)
    arguments.add_argument("--writer")
    arguments.add_argument("--seconds", type=float, default=10)
    arguments.add_argument("--tokens", type=int, default=128)
    arguments.add_argument("--threads", type=int, default=os.cpu_count())
    arguments.add_argument("--json", type=pathlib.Path)
    asked = arguments.parse_args()
    environment = os.environ | {"OMP_NUM_THREADS": str(asked.threads), "MKL_NUM_THREADS": str(asked.threads)}
    tools = pathlib.Path(sys.executable).parent
    plain = pathlib.Path(tempfile.mkdtemp()) / "plain.py"
    plain.write_text(PLAIN)
    name = pathlib.Path(asked.encoder).name

    def ours(port: int, folder: str) -> list[str]:
        return [asked.binary, "--threads", str(asked.threads), "serve", f"model={folder}", "--addr", f"127.0.0.1:{port}", "--log", "quiet"]

    embedders = {
        "regard": (lambda port: ours(port, asked.encoder), "/readyz", "model"),
        "infinity-emb": (
            lambda port: [tools / "infinity_emb", "v2", "--model-id", asked.encoder, "--served-model-name", name, "--device", "cpu",
                          "--engine", "torch", "--url-prefix", "/v1", "--host", "127.0.0.1", "--port", str(port)],
            "/health", name,
        ),
        "fastapi": (lambda port: [sys.executable, plain, asked.encoder, str(port)], "/health", name),
    }
    results = []
    for server, (command, health, model) in embedders.items():
        port = free_port()
        child = subprocess.Popen(command(port), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(port, health, child)
            for clients in (1, 8, 64):
                found = {"work": "embeddings", "server": server} | asyncio.run(embed(port, model, clients, asked.seconds))
                print(json.dumps(found), flush=True)
                results.append(found)
        except (RuntimeError, OSError, httpx.HTTPError) as error:
            print(f"{server} left out: {error}", file=sys.stderr)
        finally:
            child.terminate()
            child.wait(timeout=60)
    if asked.writer:
        writers = {
            "regard": (lambda port: ours(port, asked.writer), "/readyz", "model", "/v1/completions"),
            "transformers serve": (
                lambda port: [tools / "transformers", "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
                "/health", asked.writer, "/v1/chat/completions",
            ),
        }
        for server, (command, health, model, route) in writers.items():
            port = free_port()
            child = subprocess.Popen(command(port), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                wait_for(port, health, child)
                for clients in (1, 8):
                    found = {"work": "streams", "server": server}
                    found |= asyncio.run(stream(port, model, route, clients, asked.tokens))
                    print(json.dumps(found), flush=True)
                    results.append(found)
            except (RuntimeError, OSError, httpx.HTTPError) as error:
                print(f"{server} left out: {error}", file=sys.stderr)
            finally:
                child.terminate()
                child.wait(timeout=60)
    if asked.json:
        asked.json.write_text(json.dumps({"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
