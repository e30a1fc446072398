#!/usr/bin/env python3
"""The chunk controller in `causeway simulate`: the tables of docs/design/chunks.md.

    tools/workloads/chunk_tables.py CAUSEWAY DATA [--seconds S]

Half of the requests are documents (prompts of 2,000 to 8,000 tokens, answers of 200 in the mean),
half are chats (50 to 400; 400), Poisson arrivals, one Llama-3.1-8B. Prints Markdown."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from superinfer_runs import Failed, Random, as_trace
from superinfer_tables import percent, table

CHUNKS = ("fixed:512", "fixed:2048", "fixed:8192", "auto")
# Machine, targets (TTFT, TPOT) in ms, arrivals a second.
SETTINGS = (("h200", 1000, 50, (9, 12, 14)), ("h200", 2000, 100, (9, 12, 14)),
            ("h100", 5000, 100, (6, 9, 12)))
SEED = 21


def mix(per_second, for_seconds, seed=SEED):
    """[(arrival in s, prompt, output)]."""
    random = Random(seed)
    arrivals, at = [], 0.0
    while at < for_seconds:
        document = random.uniform() < 0.5
        low, high, answer = (2000, 8000, 200) if document else (50, 400, 400)
        prompt = low + int((high - low) * random.uniform())
        arrivals.append((at, prompt, max(2, int(random.exponential(answer)))))
        at += random.exponential(1 / per_second)
    return arrivals


def command(binary, data, setting, chunk, trace, report):
    hardware, ttft, tpot, _ = setting
    return [str(binary), "simulate", "--hardware", hardware, "--model-config",
            str(data / "configs/Llama-3.1-8B.json"), "--kv-cache-memory-bytes",
            "60GB" if hardware == "h200" else "40GB", "--max-num-batched-tokens", "8192",
            "--chunk", chunk, "--slo-ttft-ms", str(ttft), "--slo-tpot-ms", str(tpot),
            "--trace", str(trace), "--num-prompts", "0", "--json", str(report)]


def cell(total):
    shares = "/".join(percent(total[f"slo_{key}_percent"])
                      for key in ("ttft", "tpot", "both", "ttft_and_pauses"))
    return f"{shares}; {total['output_tokens_per_second']:,.0f}"


def heading(setting):
    hardware, ttft, tpot, _ = setting
    return f"{hardware}, {ttft / 1000:g} s, {tpot:g} ms"


def tables(simulate, settings=SETTINGS):
    """simulate(setting, rate, chunk) gives a report's total."""
    for setting in settings:
        yield table([heading(setting), *(f"{rate:g}/s" for rate in setting[3])],
                    [[f"`{chunk}`", *(cell(simulate(setting, rate, chunk)) for rate in setting[3])]
                     for chunk in CHUNKS])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causeway", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, default=60, help="of arrivals")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        trace, report = Path(name) / "mix.csv", Path(name) / "report.json"

        def simulate(setting, rate, chunk):
            trace.write_text(as_trace(mix(rate, options.seconds)), encoding="utf-8")
            words = command(options.causeway, options.data, setting, chunk, trace, report)
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failed(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
            return json.loads(report.read_text(encoding="utf-8"))["total"]

        try:
            for text in tables(simulate):
                print(text, end="\n\n", flush=True)
        except Failed as failure:
            sys.exit(str(failure))


if __name__ == "__main__":
    main()
