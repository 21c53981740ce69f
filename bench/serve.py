"""Measures embeddings and streamed texts of `regard serve` beside other servers, all on loopback.

    python bench/serve.py target/release/regard --encoder FOLDER [--writer FOLDER] [--seconds 10] [--json FILE]

Embeddings per second, p50 and p99 at 1, 8 and 64 clients: ours, `infinity-emb` (`pip install infinity-emb[server,torch]`) and a plain
server of FastAPI and sentence-transformers. Streamed tokens per second and the time to the first token at 1 and 8 clients: ours and
`transformers serve`. A server that is not installed is left out. Servers run one after the other, each with the same number of
threads; every loop is bounded in count and time.
"""

import argparse
import asyncio
import contextlib
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


@contextlib.contextmanager
def running(server: str, command: list, port: int, health: str, environment: dict):
    """Runs a server; one that is not installed or fails is left out."""
    try:
        child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        print(f"{server} left out: {error}", file=sys.stderr)
        yield False
        return
    try:
        wait_for(port, health, child)
        yield True
    except (RuntimeError, OSError, EOFError) as error:
        print(f"{server} left out: {error}", file=sys.stderr)
    finally:
        child.terminate()
        child.wait(timeout=60)


def texts(count: int) -> list[str]:
    """Sentences of 5 to 40 words, always the same."""
    draw = random.Random(7)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 40))) for _ in range(count)]


class Client:
    """A connection that stays open: HTTP/1.1 with answers of known length or in chunks."""

    def __init__(self, port: int):
        self.port, self.reader, self.writer = port, None, None

    async def post(self, route: str, document: dict):
        """Sends a document and yields the parts of the answer."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps(document).encode()
        head = f"POST {route} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        if " 200 " not in head.split("\r\n")[0]:
            raise RuntimeError(head.split("\r\n")[0])
        if "content-length" in fields:
            yield await self.reader.readexactly(int(fields["content-length"]))
            return
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()

    def close(self) -> None:
        if self.writer:
            self.writer.close()


async def embed(port: int, model: str, clients: int, seconds: float) -> dict:
    """Lets clients ask, one text per request, each after its last answer."""
    inputs, took, asked = texts(1_000), [], 0
    all_clients = [Client(port) for _ in range(clients)]

    async def one(client: Client, until: float, keep: bool) -> None:
        nonlocal asked
        while time.perf_counter() < until and asked < MOST_REQUESTS:
            asked += 1
            start = time.perf_counter()
            async for _ in client.post("/v1/embeddings", {"model": model, "input": inputs[asked % len(inputs)]}):
                pass
            if keep:
                took.append(time.perf_counter() - start)

    warm = time.perf_counter() + min(2.0, seconds)
    await asyncio.gather(*(one(client, warm, False) for client in all_clients))
    asked, start = 0, time.perf_counter()
    await asyncio.gather(*(one(client, start + seconds, True) for client in all_clients))
    elapsed = time.perf_counter() - start
    for client in all_clients:
        client.close()
    took.sort()
    at = lambda share: 1e3 * took[min(len(took) - 1, int(share * len(took)))]
    return {"clients": clients, "per_second": len(took) / elapsed, "p50_ms": at(0.5), "p99_ms": at(0.99)}


async def stream(port: int, model: str, route: str, clients: int, tokens: int) -> dict:
    """Lets each client read one streamed text, twice; the second time counts."""
    prompt = "Once upon a time there was a small"

    async def one() -> tuple[float, int]:
        start, first, count = time.perf_counter(), 0.0, 0
        asked = {"model": model, "max_tokens": tokens, "temperature": 0, "stream": True}
        asked |= {"prompt": prompt} if route == "/v1/completions" else {"messages": [{"role": "user", "content": prompt}]}
        client = Client(port)
        async for part in client.post(route, asked):
            count += part.count(b"data: {")
            first = first or time.perf_counter() - start
        client.close()
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

    def keep(found: dict) -> None:
        print(json.dumps(found), flush=True)
        results.append(found)

    for server, (command, health, model) in embedders.items():
        port = free_port()
        with running(server, command(port), port, health, environment) as is_there:
            for clients in (1, 8, 64) if is_there else ():
                keep({"work": "embeddings", "server": server} | asyncio.run(embed(port, model, clients, asked.seconds)))
    writers = {
        "regard": (lambda port: ours(port, asked.writer), "/readyz", "model", "/v1/completions"),
        "transformers serve": (
            lambda port: [tools / "transformers", "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
            "/health", asked.writer, "/v1/chat/completions",
        ),
    }
    for server, (command, health, model, route) in writers.items() if asked.writer else ():
        port = free_port()
        with running(server, command(port), port, health, environment) as is_there:
            for clients in (1, 8) if is_there else ():
                keep({"work": "streams", "server": server} | asyncio.run(stream(port, model, route, clients, asked.tokens)))
    if asked.json:
        asked.json.write_text(json.dumps({"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
