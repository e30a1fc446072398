"""The forward pass of every family in NumPy, float64, from the model definitions alone.

`Model(directory)` reads config.json and model.safetensors; `logits(tokens)` returns the logits of
every position of one sequence, with no cache, no batching and no shortcuts. With round_to_bf16, values
are rounded to bf16 where the C++ forward rounds: what each matrix product with a weight reads, and K
and V; all else stays float64.
"""

import json
import pathlib
import struct

import numpy as np

DTYPES = {"F32": np.float32, "F16": np.float16}


def bf16_to_f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def f32_to_bf16(x):
    """Rounds to nearest, ties to even."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def through_bf16(x):
    return bf16_to_f32(f32_to_bf16(x)).astype(np.float64)


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (header_bytes,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + header_bytes])
    body = data[8 + header_bytes :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "BF16":
            values = bf16_to_f32(np.frombuffer(body[begin:end], np.uint16))
        else:
            values = np.frombuffer(body[begin:end], DTYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"]).astype(np.float64)
    return tensors


def write_safetensors(path, tensors, dtype):
    """tensors: name → float32 array; dtype "F32" or "BF16"."""
    header, body, offset = {}, [], 0
    for name, values in tensors.items():
        raw = f32_to_bf16(values) if dtype == "BF16" else np.asarray(values, np.float32)
        raw = raw.tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(values.shape),
            "data_offsets": [offset, offset + len(raw)],
        }
        body.append(raw)
        offset += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(body))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def soft_cap(x, cap):
    return cap * np.tanh(x / cap) if cap else x


# Of a sparse layer: its block, the names of an expert's gate, up and down.
EXPERTS = {
    "mixtral": ("block_sparse_moe.", ("w1", "w3", "w2")),
    "qwen3_moe": ("mlp.", ("gate_proj", "up_proj", "down_proj")),
}


# What Qwen v1 calls fields of its configuration and tensors that most families have.
QWEN_FIELDS = {
    "head_dim": "kv_channels",
    "rms_norm_eps": "layer_norm_epsilon",
    "rope_theta": "rotary_emb_base",
    "partial_rotary_factor": "rotary_pct",
}
QWEN_TENSORS = {
    "transformer.wte.": "model.embed_tokens.",
    "transformer.ln_f.": "model.norm.",
    "transformer.h.": "model.layers.",
    ".ln_1.": ".input_layernorm.",
    ".ln_2.": ".post_attention_layernorm.",
    ".attn.c_attn.": ".self_attn.qkv_proj.",
    ".attn.c_proj.": ".self_attn.o_proj.",
    ".mlp.w2.": ".mlp.gate_proj.",  # c_proj(w1(x) * silu(w2(x)))
    ".mlp.w1.": ".mlp.up_proj.",
    ".mlp.c_proj.": ".mlp.down_proj.",
}


def renamed(name, names):
    for own, common in names.items():
        name = name.replace(own, common)
    return name


class Model:
    def __init__(self, directory, round_to_bf16=False):
        directory = pathlib.Path(directory)
        self.config = json.loads((directory / "config.json").read_text())
        self.config |= self.config.get("text_config", {})
        tensors = read_safetensors(directory / "model.safetensors")
        self.weights = {k.removeprefix("language_model."): v for k, v in tensors.items()}
        if self.config["model_type"] == "qwen":
            self.config |= {k: self.config[own] for k, own in QWEN_FIELDS.items()}
            self.weights = {renamed(k, QWEN_TENSORS): v for k, v in self.weights.items()}
        self.round = through_bf16 if round_to_bf16 else (lambda x: x)
        c = self.config
        self.heads = c["num_attention_heads"]
        self.kv_heads = c.get("num_key_value_heads", self.heads)
        self.head_dim = c.get("head_dim") or c["hidden_size"] // self.heads
        if c["model_type"] in ("phi3", "qwen"):
            self.split_fused()
        self.experts = EXPERTS.get(c["model_type"])
        self.gemma = c["model_type"].startswith("gemma")
        self.frequency, self.rope_scale = self.rope()

    def split_fused(self):
        """q, k, v and gate, up of each layer as tensors of their own."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        for layer in range(self.config["num_hidden_layers"]):
            base = f"model.layers.{layer}."
            for kind in ("weight", "bias"):
                qkv = self.weights.pop(f"{base}self_attn.qkv_proj.{kind}", None)
                if qkv is None:
                    continue
                for name, part in zip("qkv", np.split(qkv, [q, q + kv])):
                    self.weights[f"{base}self_attn.{name}_proj.{kind}"] = part
            if base + "mlp.gate_up_proj.weight" not in self.weights:
                continue
            gate_up = self.weights.pop(base + "mlp.gate_up_proj.weight")
            for name, part in zip(("gate", "up"), np.split(gate_up, 2)):
                self.weights[f"{base}mlp.{name}_proj.weight"] = part

    def rope(self):
        """Radians a token of each pair of dimensions; what queries and keys are multiplied by."""
        c = self.config
        dim = int(self.head_dim * c.get("partial_rotary_factor", 1.0))
        base = c.get("rope_theta", 10000.0)
        frequency = base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
        scaling = c.get("rope_scaling") or {}
        kind = scaling.get("rope_type", "default")
        if kind == "default":
            return frequency, 1.0
        factor = scaling.get("factor")
        original = scaling.get("original_max_position_embeddings")
        if kind == "linear":
            return frequency / factor, 1.0
        if kind == "longrope":
            original = c["original_max_position_embeddings"]
            stretch = c["max_position_embeddings"] / original
            divisor = scaling["long_factor" if stretch > 1 else "short_factor"]
            scale = np.sqrt(1 + np.log(stretch) / np.log(original)) if stretch > 1 else 1.0
            return frequency / np.array(divisor), scale
        turns = original * frequency / (2 * np.pi)  # over the original context
        if kind == "llama3":
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            blend = np.clip((turns - low) / (high - low), 0, 1)
            return frequency / factor * (1 - blend) + frequency * blend, 1.0
        assert kind == "yarn", kind
        first, last = (
            dim * np.log(original / (2 * np.pi * beta)) / (2 * np.log(base))
            for beta in (scaling.get("beta_fast", 32), scaling.get("beta_slow", 1))
        )
        first, last = max(np.floor(first), 0), min(np.ceil(last), dim - 1)
        stay = 1 - np.clip((np.arange(dim // 2) - first) / (last - first), 0, 1)
        scale = scaling.get("attention_factor") or 0.1 * np.log(factor) + 1
        return frequency / factor * (1 - stay) + frequency * stay, scale

    def linear(self, x, name):
        y = self.round(x) @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, x, name):
        scale = 1 / np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return x * scale * (self.weights[name + ".weight"] + (1 if self.gemma else 0))

    def is_local(self, layer):
        """Whether a layer of a family with both kinds has a window."""
        if not self.gemma:
            return False
        types = self.config.get("layer_types")
        if types:
            return types[layer] == "sliding_attention"
        every = 2 if self.config["model_type"] == "gemma2" else 6
        return (layer + 1) % self.config.get("sliding_window_pattern", every) != 0

    def window(self, layer):
        """How many tokens one sees in the layer, or None."""
        window = self.config.get("sliding_window")
        return window if self.is_local(layer) or not self.gemma else None

    def rotate(self, x, layer):
        """x: [tokens, heads, head_dim]"""
        frequency, scale = self.frequency, self.rope_scale
        if self.config["model_type"] == "gemma3_text" and self.is_local(layer):
            local, dim = self.config.get("rope_local_base_freq", 10000.0), self.head_dim
            frequency, scale = local ** (-np.arange(0, dim, 2, dtype=np.float64) / dim), 1.0
        angle = np.arange(len(x))[:, None] * frequency
        cos, sin = (scale * of(angle)[:, None] for of in (np.cos, np.sin))
        x, rest = np.split(x, [2 * len(frequency)], axis=-1)
        first, second = np.split(x, 2, axis=-1)
        return np.concatenate(
            [first * cos - second * sin, second * cos + first * sin, rest], axis=-1
        )

    def logn(self, tokens):
        """What the query of each position is multiplied by, of a prompt within the context."""
        trained = self.config.get("seq_length")
        count = np.arange(1, tokens + 1)
        if not trained or not self.config["use_logn_attn"]:
            return np.ones(tokens)
        return np.where(count > trained, np.log(count) / np.log(trained), 1.0)

    def attention(self, x, layer):
        base = f"model.layers.{layer}.self_attn."
        tokens = len(x)
        q = self.linear(x, base + "q_proj").reshape(tokens, self.heads, self.head_dim)
        k = self.linear(x, base + "k_proj").reshape(tokens, self.kv_heads, self.head_dim)
        v = self.linear(x, base + "v_proj").reshape(tokens, self.kv_heads, self.head_dim)
        if base + "q_norm.weight" in self.weights:
            q, k = self.norm(q, base + "q_norm"), self.norm(k, base + "k_norm")
        q, k, v = self.rotate(q, layer), self.round(self.rotate(k, layer)), self.round(v)
        q = q * self.logn(tokens)[:, None, None]
        distance = np.arange(tokens)[:, None] - np.arange(tokens)
        unseen = (distance < 0) | (distance >= (self.window(layer) or tokens))
        divisor = np.sqrt(self.config.get("query_pre_attn_scalar", self.head_dim))
        out = np.empty((tokens, self.heads, self.head_dim))
        for head in range(self.heads):
            kv_head = head * self.kv_heads // self.heads
            scores = q[:, head] @ k[:, kv_head].T / divisor
            scores = soft_cap(scores, self.config.get("attn_logit_softcapping"))
            scores[unseen] = -np.inf
            out[:, head] = softmax(scores) @ v[:, kv_head]
        return self.linear(out.reshape(tokens, -1), base + "o_proj")

    def mlp(self, x, base, names=("gate_proj", "up_proj", "down_proj")):
        gate, up, down = (base + name for name in names)
        asked = self.config.get("hidden_activation") or self.config.get("hidden_act", "silu")
        activation = {"silu": silu, "gelu_pytorch_tanh": gelu_tanh}[asked]
        return self.linear(activation(self.linear(x, gate)) * self.linear(x, up), down)

    def mixture(self, x, base):
        c = self.config
        chance = softmax(self.linear(x, base + "gate"))
        out = np.zeros_like(x)
        for token in range(len(x)):
            best = np.argsort(-chance[token], kind="stable")[: c["num_experts_per_tok"]]
            weight = chance[token, best]
            if c["model_type"] == "mixtral" or c.get("norm_topk_prob", False):
                weight = weight / weight.sum()
            for w, expert in zip(weight, best):
                out[token] += w * self.mlp(x[token], f"{base}experts.{expert}.", self.experts[1])
        return out

    def is_sparse(self, layer):
        c = self.config
        return (
            self.experts is not None
            and layer not in c.get("mlp_only_layers", [])
            and (layer + 1) % c.get("decoder_sparse_step", 1) == 0
        )

    def logits(self, tokens):
        """[tokens, vocab]"""
        c = self.config
        x = self.weights["model.embed_tokens.weight"][np.asarray(tokens)]
        if self.gemma:
            root = np.sqrt(c["hidden_size"])
            x = x * (through_bf16(root) if c["torch_dtype"] == "bfloat16" else np.float32(root))
        for layer in range(self.config["num_hidden_layers"]):
            base = f"model.layers.{layer}."
            if self.gemma:
                added = self.attention(self.norm(x, base + "input_layernorm"), layer)
                x = x + self.norm(added, base + "post_attention_layernorm")
                added = self.mlp(self.norm(x, base + "pre_feedforward_layernorm"), base + "mlp.")
                x = x + self.norm(added, base + "post_feedforward_layernorm")
                continue
            x = x + self.attention(self.norm(x, base + "input_layernorm"), layer)
            normed = self.norm(x, base + "post_attention_layernorm")
            if self.is_sparse(layer):
                x = x + self.mixture(normed, base + self.experts[0])
            else:
                x = x + self.mlp(normed, base + "mlp.")
        x = self.norm(x, "model.norm")
        tied = c.get("tie_word_embeddings", self.gemma)
        logits = self.linear(x, "model.embed_tokens" if tied else "lm_head")
        return soft_cap(logits, c.get("final_logit_softcapping"))
