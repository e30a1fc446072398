"""The models of MMA's workloads: parameters as vLLM keeps them, allocations, KV. Standard library only.

Sizes are those of the published config.json of each model. Parameters are bf16; query, key and value
weights are one tensor, as are gate and up, as vLLM fuses them.
"""

from dataclasses import dataclass
from math import prod

BF16 = 2  # bytes
MIB = 1 << 20


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    intermediate: int  # of one of the two fused halves
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool  # the output layer is the embedding table
    qkv_bias: bool
    qk_norm: bool

    def parameters(self):
        """[(name, shape)] in the order in which vLLM makes them."""
        made = [("embed_tokens", (self.vocabulary, self.hidden))]
        for layer in range(self.layers):
            made += [(f"layers.{layer}.{name}", shape) for name, shape in self._layer()]
        made.append(("norm", (self.hidden,)))
        return made if self.tied else made + [("lm_head", (self.vocabulary, self.hidden))]

    def _layer(self):
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        made = [("qkv_proj", (queries + 2 * keys, self.hidden))]
        made += [("qkv_bias", (queries + 2 * keys,))] if self.qkv_bias else []
        made += [("o_proj", (self.hidden, queries))]
        made += [(name, (self.head_dim,)) for name in ("q_norm", "k_norm") if self.qk_norm]
        return made + [("gate_up_proj", (2 * self.intermediate, self.hidden)),
                       ("down_proj", (self.hidden, self.intermediate)),
                       ("input_layernorm", (self.hidden,)),
                       ("post_attention_layernorm", (self.hidden,))]

    def parameter_count(self):
        return sum(prod(shape) for _, shape in self.parameters())

    def weight_bytes(self):
        return BF16 * self.parameter_count()

    def kv_width(self):
        """Elements of a token's keys (or values) in one layer."""
        return self.kv_heads * self.head_dim

    def kv_bytes(self, tokens):
        return 2 * self.layers * self.kv_width() * BF16 * tokens


MODELS = {model.name: model for model in (
    Model("Qwen3-0.6B", layers=28, hidden=1024, intermediate=3072, heads=16, kv_heads=8, head_dim=128,
          vocabulary=151936, tied=True, qkv_bias=False, qk_norm=True),
    Model("Qwen3-4B", layers=36, hidden=2560, intermediate=9728, heads=32, kv_heads=8, head_dim=128,
          vocabulary=151936, tied=True, qkv_bias=False, qk_norm=True),
    # config.json says intermediate_size 22016 for both halves together.
    Model("Qwen-7B-Chat", layers=32, hidden=4096, intermediate=11008, heads=32, kv_heads=32,
          head_dim=128, vocabulary=151936, tied=False, qkv_bias=True, qk_norm=False),
    Model("Qwen2.5-7B", layers=28, hidden=3584, intermediate=18944, heads=28, kv_heads=4, head_dim=128,
          vocabulary=152064, tied=False, qkv_bias=True, qk_norm=False),
    Model("Qwen3-32B", layers=64, hidden=5120, intermediate=25600, heads=64, kv_heads=8, head_dim=128,
          vocabulary=151936, tied=False, qkv_bias=False, qk_norm=True))}

SLEEP_MODELS = ("Qwen3-0.6B", "Qwen3-4B", "Qwen-7B-Chat", "Qwen3-32B")  # the paper's, section 5.2.2
KV_MODELS = ("Qwen2.5-7B", "Qwen3-4B", "Qwen-7B-Chat", "Qwen3-32B")  # section 5.2.1
KV_TOKENS = (16384, 32768, 65536)


def chosen(names, default):
    """Models by name; all of `default` if there is none."""
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise SystemExit(f"error: no model {unknown[0]}; known: {', '.join(MODELS)}")
    return [MODELS[name] for name in names or default]


class Segments:
    """How PyTorch's caching allocator lays tensors out, which is what vLLM's sleep mode copies: its
    allocator gives PyTorch whole segments, and copies each by one cudaMemcpy. Tensors up to 1 MiB share
    segments of 2 MiB, those below 10 MiB segments of 20 MiB, others have one of their own."""

    SMALL, SMALL_SEGMENT = MIB, 2 * MIB
    MEDIUM, MEDIUM_SEGMENT = 10 * MIB, 20 * MIB
    ROUND, GRAIN = 2 * MIB, 512

    def __init__(self):
        self.sizes = []
        self.free = {True: [], False: []}  # of segments for small tensors, and others: bytes left over

    def add(self, tensor_bytes):
        needed = -(-max(tensor_bytes, 1) // self.GRAIN) * self.GRAIN
        small = needed <= self.SMALL
        free = self.free[small]
        fitting = [size for size in free if size >= needed]
        if fitting:
            block = min(fitting)
            free.remove(block)
        else:
            block = self._segment(needed)
            self.sizes.append(block)
        rest = block - needed
        if rest > (0 if small else self.SMALL):
            free.append(rest)

    def _segment(self, needed):
        if needed <= self.SMALL:
            return self.SMALL_SEGMENT
        if needed < self.MEDIUM:
            return self.MEDIUM_SEGMENT
        return -(-needed // self.ROUND) * self.ROUND


def segments_of(model):
    """Bytes of each allocation of the model's weights."""
    made = Segments()
    for _, shape in model.parameters():
        made.add(BF16 * prod(shape))
    return made.sizes
