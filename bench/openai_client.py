"""Checks that the official `openai` client works against `regard serve`: lists models, embeds, completes, chats and streams.

    python bench/openai_client.py target/release/regard --encoder FOLDER --writer FOLDER [--chat FOLDER]

The folders are checkpoints of transformers: a sentence encoder, a language model, and one with a chat template.
"""

import argparse
import base64
import json
import re
import struct
import subprocess
import sys

from openai import NotFoundError, OpenAI, UnprocessableEntityError


def serve(binary: str, models: list[str]) -> tuple[subprocess.Popen, str]:
    """Starts a server at a free port of loopback and returns it with its address."""
    child = subprocess.Popen(
        [binary, "serve", "--addr", "127.0.0.1:0", "--token", "secret", "--log", "quiet", *models],
        stderr=subprocess.PIPE, text=True,
    )
    for line in child.stderr:
        found = re.search(r"http://[0-9.:]+", line)
        if found:
            return child, found.group(0)
    sys.exit("the server did not start")


def check(what: str, is_so: bool) -> None:
    print(f"{'ok  ' if is_so else 'FAIL'} {what}")
    if not is_so:
        sys.exit(1)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("binary")
    arguments.add_argument("--encoder", required=True)
    arguments.add_argument("--writer", required=True)
    arguments.add_argument("--chat")
    asked = arguments.parse_args()
    models = [f"encoder={asked.encoder}", f"writer={asked.writer}"]
    models += [f"chat={asked.chat}"] if asked.chat else []
    child, address = serve(asked.binary, models)
    try:
        client = OpenAI(base_url=f"{address}/v1", api_key="secret", max_retries=0)
        names = [model.id for model in client.models.list()]
        check(f"models {names}", names[:2] == ["encoder", "writer"])

        texts = ["A man is eating food.", "A monkey is playing drums."]
        floats = client.embeddings.create(model="encoder", input=texts, encoding_format="float")
        coded = client.embeddings.create(model="encoder", input=texts, encoding_format="base64")
        plain = client.embeddings.create(model="encoder", input=texts)
        raw = base64.b64decode(coded.data[0].embedding)
        numbers = list(struct.unpack(f"<{len(raw) // 4}f", raw))
        as_f32 = [struct.unpack("<f", struct.pack("<f", x))[0] for x in floats.data[0].embedding]
        check(f"embeddings of {len(numbers)} numbers, float and base64", numbers == as_f32)
        check("embeddings as the client asks for them by default", list(plain.data[0].embedding) == numbers)
        command = [asked.binary, "embed", asked.encoder, *texts, "--json"]
        wanted = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        far = max(abs(a - b) for a, b in zip(wanted["embeddings"][1], floats.data[1].embedding))
        check(f"embeddings of the command, at most {far:.1e} away", far < 1e-6)
        one = client.embeddings.create(model="encoder", input=[[101, 1037, 102]], encoding_format="float")
        check("token ids", len(one.data) == 1 and one.usage.total_tokens == 3)

        options = {"model": "writer", "prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}
        whole = client.completions.create(**options, logprobs=2)
        streamed = "".join(part.choices[0].text for part in client.completions.create(**options, stream=True))
        check(f"completion {whole.choices[0].text!r}", whole.usage.completion_tokens == 24)
        check("the same as a stream", streamed == whole.choices[0].text)
        check("log-probabilities", len(whole.choices[0].logprobs.token_logprobs) == 24)
        several = client.completions.create(model="writer", prompt="Once", max_tokens=4, n=3, seed=5, temperature=1)
        check("three texts", len(several.choices) == 3)

        if asked.chat:
            messages = [{"role": "user", "content": "Say hello."}]
            options = {"model": "chat", "messages": messages, "max_tokens": 16, "temperature": 0}
            answer = client.chat.completions.create(**options)
            parts = client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
            text, usage = "", None
            for part in parts:
                text += (part.choices[0].delta.content or "") if part.choices else ""
                usage = part.usage or usage
            check(f"chat {answer.choices[0].message.content!r}", answer.choices[0].message.role == "assistant")
            check("the same as a stream, with usage", text == answer.choices[0].message.content and usage == answer.usage)

        try:
            client.embeddings.create(model="nobody", input="a")
            check("unknown model refused", False)
        except NotFoundError as error:
            check(f"unknown model refused: {error.code}", error.code == "model_not_found")
        try:
            client.embeddings.create(model="encoder", input="a", dimensions=3)
            check("dimensions refused", False)
        except UnprocessableEntityError as error:
            check(f"dimensions refused: {error.param}", error.param == "dimensions")
    finally:
        child.terminate()
        child.wait(timeout=60)
    check("the server ended", child.returncode == 143)


if __name__ == "__main__":
    main()
