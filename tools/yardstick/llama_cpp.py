#!/usr/bin/env python3
"""Causeway's CPU backend beside llama.cpp's, on one model, on the same cores, in turns.

    tools/yardstick/llama_cpp.py --binary build/release/bin/causeway [--json FILE]

Builds llama.cpp, from the source package of llama-cpp-python on the package index, in
.cache/yardstick: once with this machine's instructions, once with AVX2, FMA and F16C alone; with
--instructions avx512 with AVX-512 but without its instructions for bf16. Makes a model of random
weights in the shape of Llama-3.2-1B (`causeway make-model`), and a GGUF of it.

A turn is one run of ours (`causeway bench model`) and one of theirs (`llama-batched-bench`, its
defaults); each waits for the other, so that a busy machine slows both alike. Figures are tokens a
second, medians over the turns; the ratio is the median of the turns' ratios, ours ÷ theirs.
Exits 1 when a ratio misses what is wanted.
"""
import argparse
import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gguf_file

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "yardstick"
VERSION = "0.3.36"
ARCHIVE = f"llama_cpp_python-{VERSION}.tar.gz"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
PROGRAM = "llama-batched-bench"

PLAIN_BUILD = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF",
               "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_APP=OFF",
               "-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_UI=OFF",
               "-DLLAMA_USE_PREBUILT_UI=OFF"]
# Instructions: how theirs is built, and up to which ours may go.
AVX2 = ["-DGGML_NATIVE=OFF", "-DGGML_SSE42=ON", "-DGGML_AVX=ON", "-DGGML_AVX2=ON", "-DGGML_FMA=ON",
        "-DGGML_F16C=ON", "-DGGML_BMI2=ON"]
BUILDS = {"native": ["-DGGML_NATIVE=ON"], "avx512": [*AVX2, "-DGGML_AVX512=ON"], "avx2": AVX2}
OURS_MAX = {"native": "avx512_bf16", "avx512": "avx512", "avx2": "avx2"}

# Llama-3.2-1B.
SHAPE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
         "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
         "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
         "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
         "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
PROMPT = 512
BATCH = 8
DECODED = 24
OUR_RUNS = 5
# What is measured, and the ratio that is wanted of it.
WANTED = {"prefill 512": 1.0, "decode, batch 1": 1.0, "decode, batch 8": 1.3}

BUILD_SECONDS_MAX = 3600
RUN_SECONDS_MAX = 600


class Failed(Exception):
    pass


def call(command, seconds, **options):
    """What it prints. Failed: its status, with the end of what it said."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} took more than {seconds} s") from None
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise Failed(f"{' '.join(map(str, command))}: status {done.returncode}\n" + "\n".join(said))
    return done.stdout


@contextlib.contextmanager
def locked(path):
    """Holds the lock of a machine that several people use, where there is one."""
    if path is None:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def start(cpus, nice):
    """In the child: the cores, and the niceness of the process and, where the scheduler shares time
    among sessions first, of its session."""
    os.sched_setaffinity(0, cpus)
    if nice:
        os.nice(nice)
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(nice))


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def fetch():
    folder = CACHE / f"llama-cpp-python-{VERSION}"
    if not folder.exists():
        say(f"fetching {ARCHIVE}")
        call([sys.executable, ROOT / "scripts/fetch_sdist.py", "llama-cpp-python", ARCHIVE, SHA256,
              folder], 600, cwd=ROOT)
    return folder / "vendor" / "llama.cpp"


def build(instructions, jobs, lock):
    """The program of llama.cpp with these instructions."""
    folder = CACHE / f"llama.cpp-{VERSION}-{instructions}"
    program = folder / "bin" / PROGRAM
    if not program.exists():
        source = fetch()
        say(f"building llama.cpp ({instructions})")
        with locked(lock):
            generator = ["-G", "Ninja"] if shutil.which("ninja") else []
            call(["cmake", "-S", source, "-B", folder, *generator, *PLAIN_BUILD,
                  *BUILDS[instructions]], 600)
            call(["cmake", "--build", folder, "--target", PROGRAM, "-j", jobs], BUILD_SECONDS_MAX)
    return program


def make_model(binary):
    """(config.json, GGUF) of one model of random weights."""
    folder, gguf = CACHE / "model", CACHE / "model.gguf"
    if not gguf.exists():
        say("making the model")
        shape = CACHE / "shape"
        shape.mkdir(parents=True, exist_ok=True)
        (shape / "config.json").write_text(json.dumps(SHAPE))
        shutil.rmtree(folder, ignore_errors=True)
        call([binary, "make-model", folder, "--from-config", shape], 600)
        gguf_file.convert(folder, gguf)
    return folder / "config.json", gguf


def our_command(binary, config, instructions):
    return [binary, "bench", "model", "--device", "cpu", "--cpu", OURS_MAX[instructions],
            "--model-config", config, "--runs", OUR_RUNS, "--batch", f"1,{BATCH}",
            "--context", PROMPT, "--prefill", PROMPT, "--json", "-"]


def their_command(program, gguf, threads):
    # The prompt is shared: one is computed, and copied to every sequence.
    return [program, "-m", gguf, "-t", threads, "-npp", PROMPT, "-ntg", DECODED, "-npl", f"1,{BATCH}",
            "-pps", "-c", BATCH * (PROMPT + DECODED) + 256, "--output-format", "jsonl"]


def our_rates(printed):
    """{what: tokens a second} of `bench model --json -`."""
    rows = json.loads(printed[printed.index("["):printed.rindex("]") + 1])
    names = {("decode", 1): "decode, batch 1", ("decode", BATCH): f"decode, batch {BATCH}",
             ("prefill", None): f"prefill {PROMPT}"}
    rates = {}
    for row in rows:
        batch = re.match(r"batch (\d+),", row["shape"])
        name = names.get((row["name"], int(batch.group(1)) if batch else None))
        if name is not None:
            rates[name] = row["tokens_per_s"]
    return rates


def their_rates(printed):
    """{what: tokens a second} of llama-batched-bench's lines of JSON."""
    rates = {}
    for line in printed.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            if row["pl"] == 1:
                rates[f"prefill {PROMPT}"] = row["speed_pp"]
            rates[f"decode, batch {row['pl']}"] = row["speed_tg"]
    return rates


def compare(turns):
    """Rows of one set of instructions from [(our rates, their rates)] of its turns."""
    rows = []
    for what, wanted in WANTED.items():
        ours, theirs = [turn[0][what] for turn in turns], [turn[1][what] for turn in turns]
        ratios = [a / b for a, b in zip(ours, theirs)]
        ratio = statistics.median(ratios)
        rows.append({"what": what, "ours": statistics.median(ours),
                     "theirs": statistics.median(theirs), "ratio": ratio, "wanted": wanted,
                     "met": ratio >= wanted, "ratios": ratios, "turns_ours": ours,
                     "turns_theirs": theirs})
    return rows


def table(report):
    lines = ["| instructions | what | ours, tokens/s | llama.cpp | ratio (of each turn) | wanted |",
             "|---|---|---|---|---|---|"]
    for instructions, rows in report["rows"].items():
        for row in rows:
            ratio = f"{row['ratio']:.2f}" if row["met"] else f"**{row['ratio']:.2f}**, missed"
            each = ", ".join(f"{value:.2f}" for value in row["ratios"])
            lines.append(f"| {instructions} | {row['what']} | {row['ours']:.2f} | "
                         f"{row['theirs']:.2f} | {ratio} ({each}) | ≥ {row['wanted']:.1f} |")
    return "\n".join(lines)


def cpu_name():
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return found.group(1) if found else platform.processor()


def run(options):
    cpus = sorted(os.sched_getaffinity(0))[:options.cores]
    if len(cpus) < options.cores:
        raise Failed(f"{options.cores} cores are wanted, and {len(cpus)} are there")
    programs = {name: build(name, options.jobs, options.lock) for name in options.instructions}
    config, gguf = make_model(options.binary)

    def timed(command):
        with locked(options.lock):
            return call(command, RUN_SECONDS_MAX, start_new_session=True,
                        preexec_fn=lambda: start(cpus, options.nice))

    report = {"machine": cpu_name(), "cores": len(cpus), "llama_cpp_python": VERSION,
              "date": time.strftime("%Y-%m-%d"),
              "commit": call(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], 60).strip(),
              "rows": {}}
    for name in options.instructions:
        turns = []
        for turn in range(options.turns):
            say(f"{name}: turn {turn + 1} of {options.turns}")
            ours = our_rates(timed(our_command(options.binary, config, name)))
            theirs = their_rates(timed(their_command(programs[name], gguf, len(cpus))))
            turns.append((ours, theirs))
        report["rows"][name] = compare(turns)
    return report


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/causeway",
                        help="our program")
    parser.add_argument("--turns", type=int, default=3, help="of ours and theirs; at least 3")
    parser.add_argument("--cores", type=int, default=2, help="that both run on")
    parser.add_argument("--instructions", nargs="+", choices=list(BUILDS),
                        default=["native", "avx2"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="that build llama.cpp")
    parser.add_argument("--nice", type=int, default=0, help="added to the niceness of both")
    parser.add_argument("--lock", type=Path, help="a file to lock while building and in each run")
    parser.add_argument("--json", type=Path, help="also write the report there")
    options = parser.parse_args(arguments)
    if options.turns < 3:
        parser.error("--turns: at least 3")
    if not options.binary.exists():
        parser.error(f"--binary: there is no {options.binary}")
    options.binary = options.binary.resolve()
    try:
        report = run(options)
    except (Failed, ValueError, KeyError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(row["met"] for rows in report["rows"].values() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
