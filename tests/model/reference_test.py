"""Compares the C++ forward pass with reference.py on generated tiny models, and with a trained model.

Every group size (query heads a KV head) of the models that are served, tied and untied embeddings,
biases, sliding windows, every scaling of RoPE, Qwen3's head norms, Qwen v1's logn attention,
Qwen3-MoE's and Mixtral's routing; prompts whole, in chunks and mixed with other sequences' decodes. f32: relative error of the logits at most 1e-4. bf16: at most 1.5 × the
error that rounding to bf16 at the same places has in the reference.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: this Python has no numpy (tests/requirements.txt)")
    sys.exit(77)

import reference

GROUPS_SERVED = {1, 2, 3, 4, 5, 7, 8}
F32_ERROR_MAX = 1e-4
BF16_ERROR_RATIO_MAX = 1.5


def groups_of_configs(folder):
    """Query heads a KV head of every real config."""
    groups = set()
    for path in sorted(folder.glob("*.json")):
        config = json.loads(path.read_text())
        heads = config.get("num_attention_heads")
        if heads:
            groups.add(heads // config.get("num_key_value_heads", heads))
    return groups


ARCHITECTURES = {
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",  # or, with "nested", a text_config
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen": "QWenLMHeadModel",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}


def base_config(family, **changes):
    config = {
        "architectures": [ARCHITECTURES[family]],
        "model_type": family,
        "hidden_size": 96,
        "intermediate_size": 131,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 211,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }
    if family == "qwen3_moe":
        config |= {
            "num_experts": 9,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 37,
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    if family == "qwen":
        config |= {
            "num_key_value_heads": 4,
            "seq_length": 4096,
            "use_dynamic_ntk": True,
            "use_logn_attn": True,
            "no_bias": True,
        }
    if family.startswith("gemma"):
        del config["hidden_act"]
        config |= {
            "hidden_activation": "gelu_pytorch_tanh",
            "tie_word_embeddings": True,
            "query_pre_attn_scalar": 24,
            "sliding_window": 40,
        }
    if family == "gemma2":
        config |= {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
    if family == "mixtral":
        config |= {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None}
    return config | changes


def is_sparse(c, layer):
    step = c.get("decoder_sparse_step", 1)
    return layer not in c.get("mlp_only_layers", []) and (layer + 1) % step == 0


def qwen_config(config):
    """The same as a file of Qwen v1 has it."""
    own = {reference.QWEN_FIELDS.get(name, name): value for name, value in config.items()}
    own["intermediate_size"] *= 2  # gate and up together
    own.setdefault("rotary_pct", 1.0)
    del own["num_key_value_heads"], own["hidden_act"]
    return own


def qwen_shapes(c):
    hidden, vocab, wide = c["hidden_size"], c["vocab_size"], c["intermediate_size"]
    q = c["num_attention_heads"] * c["head_dim"]
    yield "transformer.wte.weight", (vocab, hidden)
    for layer in range(c["num_hidden_layers"]):
        base = f"transformer.h.{layer}."
        yield base + "ln_1.weight", (hidden,)
        yield base + "ln_2.weight", (hidden,)
        yield base + "attn.c_attn.bias", (3 * q,)
        for name, rows, cols in (
            ("attn.c_attn", 3 * q, hidden),
            ("attn.c_proj", hidden, q),
            ("mlp.w1", wide, hidden),
            ("mlp.w2", wide, hidden),
            ("mlp.c_proj", hidden, wide),
        ):
            yield f"{base}{name}.weight", (rows, cols)
            if name != "attn.c_attn" and not c["no_bias"]:
                yield f"{base}{name}.bias", (rows,)
    yield "transformer.ln_f.weight", (hidden,)
    yield "lm_head.weight", (vocab, hidden)


def tensor_shapes(c):
    if c["model_type"] == "qwen":
        yield from qwen_shapes(c)
        return
    hidden, vocab, head_dim = c["hidden_size"], c["vocab_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * head_dim, c["num_key_value_heads"] * head_dim

    def linear(name, rows, cols, bias=False):
        yield name + ".weight", (rows, cols)
        if bias:
            yield name + ".bias", (rows,)

    def mlp(base, wide, bias, names=("gate_proj", "up_proj", "down_proj")):
        yield from linear(base + names[0], wide, hidden, bias)
        yield from linear(base + names[1], wide, hidden, bias)
        yield from linear(base + names[2], hidden, wide, bias)

    yield "model.embed_tokens.weight", (vocab, hidden)
    for layer in range(c["num_hidden_layers"]):
        base = f"model.layers.{layer}."
        yield base + "input_layernorm.weight", (hidden,)
        yield base + "post_attention_layernorm.weight", (hidden,)
        if c["model_type"].startswith("gemma"):
            yield base + "pre_feedforward_layernorm.weight", (hidden,)
            yield base + "post_feedforward_layernorm.weight", (hidden,)
        bias = c.get("attention_bias", False)
        fused = c["model_type"] == "phi3"
        parts = (("qkv", q + 2 * kv),) if fused else (("q", q), ("k", kv), ("v", kv))
        for name, rows in parts:
            its = bias or c["model_type"] == "qwen2"
            yield from linear(f"{base}self_attn.{name}_proj", rows, hidden, its)
        yield from linear(f"{base}self_attn.o_proj", hidden, q, bias)
        if c["model_type"].startswith("qwen3") or c["model_type"] == "gemma3_text":
            yield base + "self_attn.q_norm.weight", (head_dim,)
            yield base + "self_attn.k_norm.weight", (head_dim,)
        if c["model_type"] in reference.EXPERTS and is_sparse(c, layer):
            block, names = reference.EXPERTS[c["model_type"]]
            experts = c.get("num_experts") or c["num_local_experts"]
            wide = c.get("moe_intermediate_size", c["intermediate_size"])
            yield from linear(f"{base}{block}gate", experts, hidden)
            for expert in range(experts):
                yield from mlp(f"{base}{block}experts.{expert}.", wide, False, names)
        elif fused:
            yield from linear(base + "mlp.gate_up_proj", 2 * c["intermediate_size"], hidden)
            yield from linear(base + "mlp.down_proj", hidden, c["intermediate_size"])
        else:
            yield from mlp(base + "mlp.", c["intermediate_size"], c.get("mlp_bias", False))
    yield "model.norm.weight", (hidden,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (vocab, hidden)


def make_model(directory, config, random):
    tensors = {}
    for name, shape in tensor_shapes(config):
        values = random.standard_normal(shape)
        if values.ndim == 1 and name.endswith(".weight"):
            values = (0 if config["model_type"].startswith("gemma") else 1) + 0.2 * values
        elif name.endswith(".bias"):
            values *= 0.3
        elif not name.endswith(("embed_tokens.weight", "wte.weight")):
            values *= 1.5 / np.sqrt(shape[-1])
        tensors[name] = values.astype(np.float32)
    if config.get("nested"):
        outside = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3"}
        tensors = {"language_model." + name: values for name, values in tensors.items()}
        (directory / "config.json").write_text(json.dumps(outside | {"text_config": config}))
    else:
        own = qwen_config(config) if config["model_type"] == "qwen" else config
        (directory / "config.json").write_text(json.dumps(own))
    dtype = "BF16" if config["torch_dtype"] == "bfloat16" else "F32"
    reference.write_safetensors(directory / "model.safetensors", tensors, dtype)


def random_steps(sequences, random, chunk_max, batch_max):
    """Cuts the sequences into chunks and mixes them into steps; each chunk's last logits are wanted.
    Returns steps of (sequence, first position, tokens)."""
    done = [0] * len(sequences)
    steps = []
    while any(d < len(s) for d, s in zip(done, sequences)):
        open_ones = [i for i, s in enumerate(sequences) if done[i] < len(s)]
        chosen = random.permutation(open_ones)[: random.integers(1, batch_max + 1)]
        step = []
        for i in chosen:
            left = len(sequences[i]) - done[i]
            count = 1 if random.random() < 0.4 else int(random.integers(1, chunk_max + 1))
            count = min(left, count)
            step.append((int(i), done[i], sequences[i][done[i] : done[i] + count]))
            done[i] += count
        steps.append(step)
    return steps


def run_forward(forward_dump, directory, steps, kv, frame_bytes):
    """The logits of the last token of every entry, in order."""
    lines = [f"frame_bytes {frame_bytes}", f"kv {kv}"]
    for step in steps:
        lines.append("step")
        lines += [f"entry {i} 1 " + " ".join(map(str, tokens)) for i, _, tokens in step]
    with tempfile.TemporaryDirectory() as scratch:
        script, out = pathlib.Path(scratch, "steps"), pathlib.Path(scratch, "logits")
        script.write_text("\n".join(lines) + "\n")
        subprocess.run([forward_dump, directory, script, out], check=True, timeout=300)
        return np.fromfile(out, np.float32)


def relative(x, exact):
    return float(np.linalg.norm(x - exact) / np.linalg.norm(exact))


def wanted_rows(all_logits, steps):
    return np.concatenate(
        [all_logits[i][begin + len(tokens) - 1] for step in steps for i, begin, tokens in step]
    )


def compare(forward_dump, directory, name, steps, sequences, config):
    """Returns what went wrong, or None."""
    exact = reference.Model(directory)
    want = wanted_rows([exact.logits(s) for s in sequences], steps)
    kv_bytes = 2 if config["torch_dtype"] == "bfloat16" else 4
    token_bytes = 2 * config["num_hidden_layers"] * config["num_key_value_heads"]
    token_bytes *= config["head_dim"] * kv_bytes
    frame_bytes = token_bytes * 5 + 64  # an odd number of tokens, and something left over
    kv = "BF16" if kv_bytes == 2 else "F32"
    got = run_forward(forward_dump, directory, steps, kv, frame_bytes)
    error = relative(got, want)
    limit = F32_ERROR_MAX
    if kv_bytes == 2:
        rounded = reference.Model(directory, round_to_bf16=True)
        rounding = relative(wanted_rows([rounded.logits(s) for s in sequences], steps), want)
        limit = BF16_ERROR_RATIO_MAX * rounding
    good = bool(np.isfinite(got).all()) and error <= limit
    print(f"{'ok  ' if good else 'FAIL'} {name}: error {error:.2e}, limit {limit:.2e}")
    return None if good else name


# Of most cases: lengths of the sequences, longest chunk, most sequences a step.
MIXED = ([70, 33, 9, 1, 130], 24, 4)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0 + i / 8 for i in range(8)],
    "long_factor": [1.0 + i * i / 2 for i in range(8)],
}


def grouped_cases(groups):
    for group in sorted(groups):
        heads = {"num_attention_heads": 2 * group, "num_key_value_heads": 2}
        for family in ("llama", "qwen3"):
            tied = (group % 2 == 0) == (family == "llama")
            yield f"{family}, group {group}, {'tied' if tied else 'untied'}", base_config(
                family, tie_word_embeddings=tied, **heads
            ), MIXED


def scaled_rope_cases():
    llama3 = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    yield "llama, biases", base_config("llama", attention_bias=True, mlp_bias=True), MIXED
    yield "qwen3, biases", base_config("qwen3", attention_bias=True), MIXED
    yield "llama 3.1 rope", base_config("llama", rope_scaling=llama3, head_dim=32), MIXED
    yield "qwen2, yarn", base_config(
        "qwen2", rope_scaling=YARN, head_dim=32, max_position_embeddings=64
    ), MIXED
    yield "qwen3, yarn, attention factor", base_config(
        "qwen3", rope_scaling=YARN | {"attention_factor": 1.4, "beta_fast": 8}, head_dim=24
    ), MIXED
    yield "llama, linear rope", base_config(
        "llama", rope_scaling={"rope_type": "linear", "factor": 2.5}
    ), MIXED
    for name, length in (("long", 512), ("short", 64)):
        yield f"phi3, {name} rope", base_config(
            "phi3", rope_scaling=LONGROPE, max_position_embeddings=length,
            original_max_position_embeddings=64,
        ), MIXED if length > 130 else ([60, 33], 24, 2)


def partial_rope_cases():
    yield "phi3, a part of each head turned, long rope", base_config(
        "phi3", rope_scaling=LONGROPE, max_position_embeddings=512, head_dim=24,
        original_max_position_embeddings=64, partial_rotary_factor=0.7,
    ), MIXED
    yield "qwen3, a part of each head turned, biases", base_config(
        "qwen3", attention_bias=True, partial_rotary_factor=0.25, head_dim=24
    ), MIXED
    yield "llama, half of each head turned", base_config(
        "llama", partial_rotary_factor=0.5, rope_scaling=YARN, max_position_embeddings=64
    ), MIXED


def shape_cases():
    yield "odd sizes", base_config("llama", hidden_size=101, head_dim=10, vocab_size=97), MIXED
    yield "head 80", base_config("llama", head_dim=80), MIXED
    yield "head 128, one KV head", base_config(
        "qwen3", head_dim=128, num_attention_heads=3, num_key_value_heads=1
    ), ([200], 200, 1)
    yield "whole prompts", base_config("llama"), ([300, 41], 300, 2)
    yield "token by token", base_config("llama"), ([40, 40, 40], 1, 3)
    yield "moe", base_config("qwen3_moe"), MIXED
    yield "moe, weights not normalised", base_config("qwen3_moe", norm_topk_prob=False), MIXED
    yield "moe, every second layer", base_config("qwen3_moe", decoder_sparse_step=2), MIXED
    yield "moe, dense layers", base_config("qwen3_moe", mlp_only_layers=[0, 2]), MIXED


def qwen_cases():
    yield "qwen2", base_config("qwen2"), MIXED
    yield "qwen2, tied, group 7", base_config(
        "qwen2", tie_word_embeddings=True, num_attention_heads=7, num_key_value_heads=1
    ), MIXED
    yield "qwen", base_config("qwen"), MIXED
    for ntk in (True, False):
        yield f"qwen, beyond the context of training, {'dynamic' if ntk else 'fixed'} base", (
            base_config("qwen", seq_length=20, head_dim=32, use_dynamic_ntk=ntk)
        ), MIXED
    yield "qwen, logn attention token by token", base_config("qwen", seq_length=5), ([60, 9], 1, 2)
    yield "qwen, no logn attention", base_config("qwen", seq_length=20, use_logn_attn=False), MIXED
    yield "qwen, biases, a part of each head turned", base_config(
        "qwen", seq_length=30, no_bias=False, head_dim=24, partial_rotary_factor=0.5
    ), MIXED
    yield "phi3, a window", base_config("phi3", sliding_window=60, head_dim=24), MIXED


def window_cases():
    yield "mistral", base_config("mistral", sliding_window=None, head_dim=40), MIXED
    yield "mistral, a window", base_config("mistral", sliding_window=70), ([300, 150, 5], 90, 3)
    yield "mistral, a window, token by token", base_config("mistral", sliding_window=33), (
        [90, 40], 1, 2)
    yield "mistral, a small window", base_config("mistral", sliding_window=3), MIXED
    yield "mixtral, a window", base_config("mixtral", sliding_window=20), MIXED
    yield "mixtral", base_config("mixtral"), MIXED
    yield "mixtral, tied", base_config("mixtral", tie_word_embeddings=True, head_dim=24), MIXED


def gemma_cases():
    yield "gemma2", base_config("gemma2"), MIXED
    yield "gemma2, no caps, untied, all layers alike", base_config(
        "gemma2", attn_logit_softcapping=None, final_logit_softcapping=None, head_dim=24,
        tie_word_embeddings=False, layer_types=["full_attention"] * 3,
    ), MIXED
    yield "gemma2, whole prompts", base_config("gemma2", num_key_value_heads=4), ([150], 150, 1)
    # Two layers of three with a window, and a base of their own.
    yield "gemma3", base_config(
        "gemma3_text", sliding_window_pattern=3, rope_theta=1e6,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
    ), MIXED
    yield "gemma3, a window beyond the context", base_config(
        "gemma3_text", num_hidden_layers=7, sliding_window=4096, rope_local_base_freq=500.0,
        num_attention_heads=4, num_key_value_heads=1,
    ), MIXED
    yield "gemma3, among other models", base_config("gemma3_text", nested=True), MIXED


def cases(groups):
    """name → (config, lengths of the sequences, longest chunk, most sequences a step). The seeds of
    the weights follow from the order."""
    yield from grouped_cases(groups)
    yield from scaled_rope_cases()
    yield from partial_rope_cases()
    yield from shape_cases()
    yield from qwen_cases()
    yield from window_cases()
    yield from gemma_cases()
    yield "llama, gelu", base_config("llama", hidden_act="gelu_pytorch_tanh"), MIXED
    yield "moe, many tokens an expert", base_config("qwen3_moe", num_experts=3), ([250], 250, 1)


def check_generated(forward_dump, groups, seed):
    failures, count = [], 0
    for index, (name, config, (lengths, chunk_max, batch_max)) in enumerate(cases(groups)):
        for dtype in ("float32", "bfloat16"):
            # A near-tie of two experts may be decided either way, so those inputs stay the same.
            random = np.random.default_rng([1 if "num_experts_per_tok" in config else seed, index])
            config = config | {"torch_dtype": dtype}
            sequences = [random.integers(0, config["vocab_size"], n).tolist() for n in lengths]
            steps = random_steps(sequences, random, chunk_max, batch_max)
            with tempfile.TemporaryDirectory() as scratch:
                directory = pathlib.Path(scratch)
                make_model(directory, config, random)
                label = f"{name}, {dtype}"
                failures.append(compare(forward_dump, directory, label, steps, sequences, config))
            count += 1
    return [f for f in failures if f], count


def check_trained(forward_dump, directory):
    """A trained model: its golden greedy tokens and the logits of its first positions."""
    golden = json.loads((directory / "greedy_golden.json").read_text())
    tokens = golden["prompt_ids"] + golden["greedy_ids"]
    steps = [[(0, i, [token])] for i, token in enumerate(tokens[:-1])]
    got = run_forward(forward_dump, directory, steps, "F32", 1 << 16).reshape(len(steps), -1)
    first = np.array(golden["logits_first8"])
    error = relative(got[: len(first)], first)
    begin = len(golden["prompt_ids"]) - 1
    greedy = got[begin:].argmax(axis=1).tolist()
    good = greedy == golden["greedy_ids"] and error <= F32_ERROR_MAX
    print(f"{'ok  ' if good else 'FAIL'} trained model: error {error:.2e}, "
          f"{sum(a == b for a, b in zip(greedy, golden['greedy_ids']))} of "
          f"{len(golden['greedy_ids'])} greedy tokens")
    return [] if good else ["trained model"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forward-dump", required=True)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    arguments = parser.parse_args()
    print(f"numpy {np.__version__}, --seed {arguments.seed}")
    data = os.environ.get("CAUSEWAY_TEST_DATA")
    groups = GROUPS_SERVED | (groups_of_configs(pathlib.Path(data, "configs")) if data else set())
    failures, count = check_generated(arguments.forward_dump, groups, arguments.seed)
    if data:
        failures += check_trained(
            arguments.forward_dump, pathlib.Path(data, "models", "stories260K")
        )
    else:
        print("the trained model was not checked: CAUSEWAY_TEST_DATA is not set")
    print(f"{count} generated cases, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
