"""A Llama checkpoint of the Hugging Face layout as a GGUF file, for llama.cpp: bf16 as it is.

Format: GGUF version 3. A header (magic, version, numbers of tensors and of facts), the facts (name,
type, value), the tensors' descriptions (name, sizes innermost first, type, offset), then the
tensors, each at a multiple of 32 bytes. llama.cpp wants norms in f32, the rows of Q and K in the
order in which RoPE turns neighbours, and Llama 3's frequencies as a tensor of divisors.
"""
import json
import math
import mmap
import struct

import numpy as np

ALIGNMENT = 32
UINT32, FLOAT32, STRING = 4, 6, 8  # types of facts
F32, BF16 = 0, 30  # types of tensors
MOSTLY_BF16 = 32
HEADER_BYTES_MAX = 64 << 20

NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def name_of(name):
    """llama.cpp's name of a tensor. ValueError: a tensor that a Llama does not have."""
    if name in NAMES:
        return NAMES[name]
    parts = name.split(".")
    part = ".".join(parts[3:-1])
    if parts[:2] != ["model", "layers"] or parts[-1] != "weight" or part not in NAMES:
        raise ValueError(f"{name} is no tensor of a Llama without biases")
    return f"blk.{parts[2]}.{NAMES[part]}.weight"


def read_safetensors(path):
    """{name: array}; bf16 as uint16. The arrays lie in the mapped file."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (size,) = struct.unpack_from("<Q", mapped, 0)
    if size > HEADER_BYTES_MAX:
        raise ValueError(f"{path}: a header of {size} bytes")
    tensors = {}
    for name, entry in json.loads(mapped[8:8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            raise ValueError(f"{path}: {name} is {entry['dtype']}; only BF16 is compared")
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(mapped, np.uint16, (end - begin) // 2,
                                      8 + size + begin).reshape(entry["shape"])
    return tensors


def neighbours(rows, heads):
    """Rows of Q or K: halves of a head, which RoPE turns together, become neighbours."""
    head = rows.shape[0] // heads
    return rows.reshape(heads, 2, head // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def widened(values):
    """bf16 as f32, exactly."""
    return (values.astype(np.uint32) << 16).view(np.float32)


def rope_divisors(config):
    """By what Llama 3's scaling divides each frequency; None without it."""
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type")) != "llama3":
        return None
    factor, low, high = (scaling[key] for key in ("factor", "low_freq_factor", "high_freq_factor"))
    original = scaling["original_max_position_embeddings"]
    head = head_of(config)
    divisors = []
    for i in range(0, head, 2):
        turns = original / (2 * math.pi * config["rope_theta"] ** (i / head))
        smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
        divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, np.float32)


def head_of(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def tensors_of(config, checkpoint):
    """[(name, type, array)] in llama.cpp's names, types and order of rows."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = []
    for name, values in checkpoint.items():
        theirs = name_of(name)
        if values.ndim == 1:
            tensors.append((theirs, F32, widened(values)))
            continue
        part = theirs.split(".")[-2]
        tensors.append((theirs, BF16, neighbours(values, heads[part]) if part in heads else values))
    divisors = rope_divisors(config)
    if divisors is not None:
        tensors.append(("rope_freqs.weight", F32, divisors))
    return tensors


def facts_of(config):
    """[(name, type, value)]. Without a vocabulary: what is measured are tokens, not texts."""
    head = head_of(config)
    return [("general.architecture", STRING, "llama"),
            ("general.name", STRING, "random"),
            ("general.file_type", UINT32, MOSTLY_BF16),
            ("general.alignment", UINT32, ALIGNMENT),
            ("tokenizer.ggml.model", STRING, "none"),
            ("llama.vocab_size", UINT32, config["vocab_size"]),
            ("llama.block_count", UINT32, config["num_hidden_layers"]),
            ("llama.context_length", UINT32, config["max_position_embeddings"]),
            ("llama.embedding_length", UINT32, config["hidden_size"]),
            ("llama.feed_forward_length", UINT32, config["intermediate_size"]),
            ("llama.attention.head_count", UINT32, config["num_attention_heads"]),
            ("llama.attention.head_count_kv", UINT32, config["num_key_value_heads"]),
            ("llama.attention.key_length", UINT32, head),
            ("llama.attention.value_length", UINT32, head),
            ("llama.rope.dimension_count", UINT32, head),
            ("llama.rope.freq_base", FLOAT32, config["rope_theta"]),
            ("llama.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"])]


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(size):
    return -size % ALIGNMENT


def write(file, facts, tensors):
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(facts))
    for name, kind, value in facts:
        packed = _text(value) if kind == STRING else struct.pack(
            "<f" if kind == FLOAT32 else "<I", value)
        head += _text(name) + struct.pack("<I", kind) + packed
    offset = 0
    for name, kind, values in tensors:
        sizes = values.shape[::-1]
        head += _text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)
        offset += values.nbytes + _padded(values.nbytes)
    file.write(head + bytes(_padded(len(head))))
    for _, _, values in tensors:
        file.write(np.ascontiguousarray(values).data)
        file.write(bytes(_padded(values.nbytes)))


def convert(folder, path):
    """Writes the checkpoint of `folder`, one model.safetensors, to `path`: whole or not at all."""
    config = json.loads((folder / "config.json").read_text())
    if config.get("model_type") != "llama":
        raise ValueError(f"{folder}: only Llama is compared")
    tensors = tensors_of(config, read_safetensors(folder / "model.safetensors"))
    part = path.with_suffix(".part")
    with open(part, "wb") as file:
        write(file, facts_of(config), tensors)
    part.rename(path)
