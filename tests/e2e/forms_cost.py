#!/usr/bin/env python3
"""What forms cost: `forms_cost.py [--shape 8b] [--tokens N] [--turns N] [--vocab N] [--json FILE]`.

One server answers the same chat in turns: without tools, with strict tools that it need not call
(its text is free, and watched), with calls that are forced, and with a JSON schema. All answers have
as many tokens, the most probable ones (drawing at random is cheaper where a form leaves few), one or
32 at a time, and forms are compiled before. The model is tiny, so that little is told that is not
the forms'; with `--shape 8b` it has the shape of Llama-3.1-8B, for a GPU. Told are µs a step, and
the server's processor time for each token, which other work on the machine changes less.
CAUSEWAY_BINARY is the program, CAUSEWAY_TEST_DEVICE what computes.
"""

import argparse
import http.client
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path

from forms_test import TEMPLATE
from running_server import TINY_MEMORY, RunningServer, make_model, name_token
from tracing_cost import ENVIRONMENT, processor_seconds

# Answers that have this form do not end before they are cut.
LIST = {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 2000}
TOOL = {"type": "function", "function": {
    "name": "paint", "strict": True, "parameters": {
        "type": "object", "properties": {"colours": LIST}, "required": ["colours"]}}}
KINDS = {
    "free": {},
    "strict tools, text": {"tools": [TOOL], "tool_choice": "auto"},
    "forced call": {"tools": [TOOL], "tool_choice": "required"},
    "schema": {"guided_json": LIST},
}
BATCHES = (1, 32)
SHAPES = {  # options of `causeway make-model`
    "tiny": {"layers": 1, "vocab": 32000},
    "8b": {"layers": 32, "hidden": 4096, "heads": 32, "kv-heads": 8, "intermediate": 14336,
           "vocab": 128256}}
ENDS = ("<|end_of_text|>", "<|im_end|>", "<|eot_id|>")  # of an answer


def ask(server, ends, kind, batch, tokens):
    """(µs a step, µs of the server's processor time for a token)"""
    failed = []

    def one(seed):
        body = {"model": "m", "messages": [{"role": "user", "content": "Say"}], "max_tokens": tokens,
                "temperature": 0, "seed": seed, **KINDS[kind]}
        body["logit_bias"] = {token: -100 for token in ends}  # of all alike
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if answer.get("usage", {}).get("completion_tokens") != tokens:
            failed.append(answer)

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(batch)]
    begin, used = time.monotonic(), processor_seconds(server.process)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begin
    assert not failed, (kind, failed[0])
    return (took / tokens * 1e6,
            (processor_seconds(server.process) - used) / (batch * tokens) * 1e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--vocab", type=int, help="instead of the shape's")
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        shape = SHAPES[settings.shape] | ({"vocab": settings.vocab} if settings.vocab else {})
        memory = TINY_MEMORY if settings.shape == "tiny" else ("--kv-cache-memory-bytes", "8gb")
        with RunningServer(model_of(Path(folder) / settings.shape, shape), "--served-model-name",
                           "m", *memory, environment=ENVIRONMENT) as server:
            ends = [str(token_of(server, end)) for end in ENDS]
            for batch in BATCHES:
                seen = {kind: [] for kind in KINDS}
                for kind in KINDS:
                    ask(server, ends, kind, batch, settings.tokens)  # warm, and the form is compiled
                for turn in range(settings.turns):
                    for kind in sorted(KINDS, reverse=turn % 2 == 1):
                        seen[kind].append(ask(server, ends, kind, batch,
                                              settings.tokens))
                for kind, runs in seen.items():
                    step, used = zip(*runs)
                    figures[f"{batch}, {kind}"] = {"step_us": statistics.median(step),
                                                   "processor_us": statistics.median(used)}
                    print(f"{batch} at a time, {kind}: {statistics.median(step):.0f} µs a step "
                          f"({min(step):.0f} to {max(step):.0f}), {statistics.median(used):.1f} µs "
                          f"of processor time a token ({min(used):.1f} to {max(used):.1f})")
    if settings.json:
        settings.json.write_text(json.dumps(figures, indent=1) + "\n")


def token_of(server, text):
    _, answer = server.request("/tokenize", {"model": "m", "prompt": text,
                                             "add_special_tokens": False})
    assert answer["count"] == 1, answer
    return answer["tokens"][0]


def model_of(directory, shape):
    model = make_model(directory, **shape)
    name_token(model, "<tool_call>")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    return model


if __name__ == "__main__":
    main()
