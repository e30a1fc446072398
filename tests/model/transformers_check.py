#!/usr/bin/env python3
"""Compares the GPU's logits with Hugging Face transformers on the same GPU, on generated models.

Models are random, of the real configurations' shapes scaled down, bf16 (`causeway make-model`). Prompts
of several lengths go through cuda_forward_dump in chunks, mixed with each other's decodes, then decode
together; transformers runs each sequence whole, in f32 (the truth) and in bf16 (the bar): our error must
be at most 1.5 × that of transformers in bf16.

Exit status: 0, 1 when a bar was missed. Needs torch with a GPU, transformers, numpy.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

ERROR_RATIO_MAX = 1.5
KL_RATIO_MAX = ERROR_RATIO_MAX**2  # KL grows with the square of a small error
TOP1_LESS_MAX = 0.05
LENGTHS = (1, 17, 64, 200, 333, 512)
DECODE_STEPS = 24
CHUNK_MAX, BATCH_MAX = 160, 4
VOCAB = 16384

# transformers' scaled dot product knows no soft caps.
EAGER = ("gemma2",)

# Lengths go beyond what this scaling stretches.
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
# All sequences are longer than the original context, since a served model has the divisors for
# these alone, where transformers changes to them as a sequence grows.
LONG_ROPE = {"original_max_position_embeddings": 16,
             "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48,
                              "long_factor": [1 + pair / 8 for pair in range(48)]}}

# name → family, real configuration (for what sizes do not say: RoPE scaling, epsilon), its sizes;
# among them "written": what config.json has in place of the real configuration's.
CASES = {
    "Gemma-2-2B ÷ 2": ("gemma2", "gemma-2-2b", {
        "layers": 8, "hidden": 1152, "intermediate": 4608, "heads": 4, "kv-heads": 2,
        "head-dim": 256, "window": 128}),
    "Gemma-2-27B ÷ 4": ("gemma2", "gemma-2-27b", {
        "layers": 6, "hidden": 1152, "intermediate": 4608, "heads": 8, "kv-heads": 4,
        "head-dim": 128, "window": 128}),
    "Gemma-3-1B, 12 layers": ("gemma3_text", "gemma-3-1b-it", {
        "layers": 12, "hidden": 1152, "intermediate": 3456, "heads": 4, "kv-heads": 1,
        "head-dim": 256, "window": 128}),
    "Gemma-3-27B ÷ 4": ("gemma3_text", "gemma-3-27b-it", {
        "layers": 7, "hidden": 1344, "intermediate": 5376, "heads": 8, "kv-heads": 4,
        "head-dim": 128, "window": 128}),
    "Llama-3.1-8B ÷ 4": ("llama", "Llama-3.1-8B", {
        "layers": 8, "hidden": 1024, "intermediate": 3584, "heads": 8, "kv-heads": 2,
        "head-dim": 128}),
    "Llama-3.1-8B ÷ 4, linear RoPE": ("llama", "Llama-3.1-8B", {
        "layers": 8, "hidden": 1024, "intermediate": 3584, "heads": 8, "kv-heads": 2,
        "head-dim": 128, "written": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}}),
    "Llama-3.2-1B ÷ 2": ("llama", "Llama-3.2-1B-Instruct", {
        "layers": 8, "hidden": 1024, "intermediate": 4096, "heads": 16, "kv-heads": 4,
        "head-dim": 64}),
    # Its configuration class has a padding token of 32,000.
    "Phi-4 ÷ 4": ("phi3", "phi-4", {
        "layers": 8, "hidden": 1280, "intermediate": 4480, "heads": 10, "kv-heads": 2,
        "head-dim": 128, "vocab": 32064}),
    "Phi-3-mini ÷ 3": ("phi3", "Phi-3-mini-4k-instruct", {
        "layers": 8, "hidden": 768, "intermediate": 2688, "heads": 8, "kv-heads": 8,
        "head-dim": 96, "vocab": 32064}),
    "Phi-3-mini ÷ 3, LongRoPE": ("phi3", "Phi-3-mini-128k-instruct", {
        "layers": 8, "hidden": 768, "intermediate": 2688, "heads": 8, "kv-heads": 8,
        "head-dim": 96, "vocab": 32064, "written": LONG_ROPE}),
    "Phi-4-mini ÷ 3": ("phi3", "Phi-4-mini-instruct", {
        "layers": 8, "hidden": 1024, "intermediate": 2688, "heads": 8, "kv-heads": 4,
        "head-dim": 128, "rotary-dim": 96, "vocab": 32064}),
    "Qwen2.5-7B ÷ 4": ("qwen2", "Qwen2.5-7B-Instruct", {
        "layers": 7, "hidden": 896, "intermediate": 4736, "heads": 7, "kv-heads": 1,
        "head-dim": 128}),
    "Qwen2.5-7B ÷ 4, YaRN": ("qwen2", "Qwen2.5-7B-Instruct", {
        "layers": 7, "hidden": 896, "intermediate": 4736, "heads": 7, "kv-heads": 1,
        "head-dim": 128, "written": {"rope_scaling": YARN}}),
    "Qwen3-0.6B, 8 layers": ("qwen3", "Qwen3-0.6B", {
        "layers": 8, "hidden": 1024, "intermediate": 3072, "heads": 16, "kv-heads": 8,
        "head-dim": 128}),
    "Qwen3-30B-A3B ÷ 4": ("qwen3_moe", "Qwen3-30B-A3B", {
        "layers": 4, "hidden": 512, "intermediate": 1536, "heads": 8, "kv-heads": 1,
        "head-dim": 128, "experts": 32, "experts-per-token": 8, "moe-intermediate": 192}),
    # No such configuration among the test data: the family's own defaults.
    "Mistral-7B ÷ 4": ("mistral", "Mistral-7B-v0.1", {
        "layers": 8, "hidden": 1024, "intermediate": 3584, "heads": 8, "kv-heads": 2,
        "head-dim": 128, "window": 128}),
    "Mixtral-8x7B ÷ 4": ("mixtral", "Mixtral-8x7B-v0.1", {
        "layers": 6, "hidden": 1024, "heads": 8, "kv-heads": 2, "head-dim": 128,
        "moe-intermediate": 1024}),
}


def make_model(causeway, folder, case, seed):
    """The model's folder; shapes from the real configuration where CAUSEWAY_TEST_DATA has it."""
    family, name, sizes = case
    source = ["--family", family]
    real = pathlib.Path(os.environ.get("CAUSEWAY_TEST_DATA", "")) / "configs" / f"{name}.json"
    if os.environ.get("CAUSEWAY_TEST_DATA") and real.exists():
        (folder / "real").mkdir()
        (folder / "real" / "config.json").write_text(real.read_text())
        source = ["--from-config", folder / "real"]
    sizes = {"vocab": VOCAB} | sizes
    written = sizes.pop("written", None)
    words = [part for key, value in sizes.items() for part in (f"--{key}", str(value))]
    subprocess.run([causeway, "make-model", folder / "model", *source, *words, "--dtype", "bf16",
                    "--seed", str(seed)],
                   check=True, timeout=120, stdout=subprocess.DEVNULL)
    if written:
        config = folder / "model" / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | written))
    return folder / "model"


def make_steps(sequences, rng):
    """Steps of (sequence, first position, tokens): prompts in mixed chunks, then decode together."""
    done, steps = [0] * len(sequences), []
    prompt = [len(s) - DECODE_STEPS for s in sequences]
    while any(d < p for d, p in zip(done, prompt)):
        waiting = [i for i in range(len(sequences)) if done[i] < prompt[i]]
        step = []
        for i in rng.sample(waiting, min(len(waiting), rng.randint(1, BATCH_MAX))):
            count = 1 if rng.random() < 0.2 else rng.randint(2, CHUNK_MAX)
            step.append((i, done[i], sequences[i][done[i]:min(prompt[i], done[i] + count)]))
            done[i] += len(step[-1][2])
        steps.append(step)
    for _ in range(DECODE_STEPS):
        steps.append([(i, done[i], [sequences[i][done[i]]]) for i in range(len(sequences))])
        done = [d + 1 for d in done]
    return steps


def our_logits(forward_dump, model, steps, config):
    """[entries, vocab]: of the last token of every entry, in order."""
    token_bytes = 4 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
    lines = [f"frame_bytes {(token_bytes * 13 // 512 + 1) * 512}", "kv BF16"]
    for step in steps:
        lines.append("step")
        lines += [f"entry {i} 1 " + " ".join(map(str, tokens)) for i, _, tokens in step]
    script, out = model.parent / "steps", model.parent / "logits"
    script.write_text("\n".join(lines) + "\n")
    subprocess.run([forward_dump, model, script, out], check=True, timeout=120)
    return torch.from_numpy(np.fromfile(out, np.float32).reshape(-1, config["vocab_size"]))


def load(model, dtype, attention):
    """transformers' model on the GPU; experts one by one, where it has several ways."""
    options = {"dtype": dtype, "attn_implementation": attention}
    try:
        made = transformers.AutoModelForCausalLM.from_pretrained(
            model, experts_implementation="eager", **options)
    except (TypeError, ValueError):
        made = transformers.AutoModelForCausalLM.from_pretrained(model, **options)
    return made.cuda().eval()


@torch.inference_mode()
def their_logits(model, dtype, attention, sequences, steps):
    """What our_logits gives, by transformers: each sequence whole."""
    network = load(model, dtype, attention)
    logits = [network(torch.tensor([s]).cuda()).logits[0].float().cpu() for s in sequences]
    return torch.stack([logits[i][begin + len(tokens) - 1]
                        for step in steps for i, begin, tokens in step])


def compare(x, exact):
    """How far logits are from the exact ones."""
    rows = torch.linalg.norm(x - exact, dim=1) / torch.linalg.norm(exact, dim=1)
    chance = torch.log_softmax(exact.double(), dim=1)
    other = torch.log_softmax(x.double(), dim=1)
    return {"error": float(torch.linalg.norm(x - exact) / torch.linalg.norm(exact)),
            "median_row_error": float(rows.median()),
            "top1": float((x.argmax(dim=1) == exact.argmax(dim=1)).double().mean()),
            "kl": float((chance.exp() * (chance - other)).sum(dim=1).mean())}


def rows_of(name, family, ours, theirs, count):
    """Rows for the table. A near-tie of two experts may fall either way, and then a whole row of
    logits differs: of mixtures only the median is held to the bar."""
    def row(what, key, limit, wanted, right):
        return {"what": f"{name}: {what}", "measured": f"{ours[key]:.3g}",
                "limit": f"{theirs[key]:.3g} (transformers bf16)", "wanted": wanted, "right": right,
                "ours": ours[key], "theirs": theirs[key], "bar": limit, "rows": count}

    made = []
    for what, key, ratio in (("relative error against f32", "error", ERROR_RATIO_MAX),
                             ("median of a row's error", "median_row_error", ERROR_RATIO_MAX),
                             ("mean KL, nats", "kl", KL_RATIO_MAX)):
        held = key == "median_row_error" or family not in ("mixtral", "qwen3_moe")
        limit = ratio * theirs[key]
        made.append(row(what, key, limit, f"≤ {ratio:g} × its" if held else "",
                        bool(ours[key] <= limit) if held else None))
    least = theirs["top1"] - TOP1_LESS_MAX
    made.append(row("same best token", "top1", least, f"≥ its − {TOP1_LESS_MAX:g}",
                    ours["top1"] >= least))
    return made


def check(options, name, folder):
    case = CASES[name]
    model = make_model(options.causeway, folder, case, options.seed)
    config = json.loads((model / "config.json").read_text())
    rng = random.Random(options.seed)
    sequences = [[rng.randrange(config["vocab_size"]) for _ in range(n + DECODE_STEPS)]
                 for n in LENGTHS]
    steps = make_steps(sequences, rng)
    ours = our_logits(options.forward_dump, model, steps, config)
    exact = their_logits(model, torch.float32, "eager", sequences, steps)
    theirs = {kind: compare(their_logits(model, torch.bfloat16, kind, sequences, steps), exact)
              for kind in ("sdpa", "eager")}
    if not bool(torch.isfinite(ours).all()):
        return [{"what": f"{name}: logits that are not finite", "measured": "", "limit": "",
                 "wanted": "none", "right": False}]
    found = compare(ours, exact)
    print(f"{name}: {len(ours)} rows; ours {found}; transformers bf16 {theirs}", flush=True)
    bar = theirs["eager" if case[0] in EAGER else "sdpa"]
    return rows_of(name, case[0], found, bar, len(ours))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forward-dump", required=True, help="the program cuda_forward_dump")
    parser.add_argument("--causeway", required=True)
    parser.add_argument("--family", choices=sorted({case[0] for case in CASES.values()}))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
          f"--seed {options.seed}")
    torch.backends.cuda.matmul.allow_tf32 = False
    rows = []
    for name, (family, _, _) in CASES.items():
        if options.family in (None, family):
            with tempfile.TemporaryDirectory() as folder:
                rows += check(options, name, pathlib.Path(folder))
    for row in rows:
        print({None: "    ", True: "ok  ", False: "FAIL"}[row["right"]],
              row["what"], row["measured"], "beside", row["limit"])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows))
    return 1 if any(row["right"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
