#!/usr/bin/env python3
"""gguf_file.py and llama_cpp.py without llama.cpp: what a GGUF holds, and what is made of outputs."""
import io
import json
import struct
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import gguf_file
    import llama_cpp
except ImportError as error:
    raise SystemExit(77) from error

CONFIG = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 10,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
OUR_ROWS = [{"name": "decode", "shape": "batch 1, context 512", "tokens_per_s": 10.0},
            {"name": "decode", "shape": "batch 8, context 512", "tokens_per_s": 60.0},
            {"name": "prefill", "shape": "512 tokens", "tokens_per_s": 300.0}]


def bf16(shape, first=0):
    return np.arange(first, first + int(np.prod(shape)), dtype=np.uint16).reshape(shape)


def safetensors(path, tensors, dtype="BF16"):
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(values.shape),
                        "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    head = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def read_gguf(data):
    """({fact: value}, {tensor: (type, array of bytes, sizes)}): the format, read another way."""
    file = io.BytesIO(data)

    def take(layout):
        values = struct.unpack("<" + layout, file.read(struct.calcsize("<" + layout)))
        return values[0] if len(values) == 1 else values

    def text():
        return file.read(take("Q")).decode()

    assert file.read(4) == b"GGUF" and take("I") == 3
    tensor_count, fact_count = take("Q"), take("Q")
    facts, described = {}, []
    for _ in range(fact_count):
        name, kind = text(), take("I")
        facts[name] = text() if kind == 8 else take("f" if kind == 6 else "I")
    for _ in range(tensor_count):
        name, dimensions = text(), take("I")
        sizes = [take("Q") for _ in range(dimensions)]
        described.append((name, sizes, take("I"), take("Q")))
    start = file.tell() + -file.tell() % facts["general.alignment"]
    tensors = {}
    for name, sizes, kind, offset in described:
        assert offset % facts["general.alignment"] == 0
        size = int(np.prod(sizes)) * (4 if kind == 0 else 2)
        tensors[name] = (kind, data[start + offset:start + offset + size], sizes)
    return facts, tensors


class Gguf(unittest.TestCase):
    def convert(self, tensors, config=None, dtype="BF16"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "config.json").write_text(json.dumps(config or CONFIG))
            safetensors(folder / "model.safetensors", tensors, dtype)
            gguf_file.convert(folder, folder / "model.gguf")
            self.assertEqual(list(folder.glob("*.part")), [])
            return read_gguf((folder / "model.gguf").read_bytes())

    def test_tensors(self):
        down, norm = bf16((8, 12), 7), np.array([0x3F80, 0x4000, 0xBF00] + [0] * 5, np.uint16)
        facts, tensors = self.convert({"model.layers.0.mlp.down_proj.weight": down,
                                       "model.norm.weight": norm})
        self.assertEqual(facts["llama.feed_forward_length"], 12)
        self.assertEqual(facts["llama.vocab_size"], 10)
        self.assertEqual(tensors["blk.0.ffn_down.weight"], (30, down.tobytes(), [12, 8]))
        kind, data, sizes = tensors["output_norm.weight"]
        self.assertEqual((kind, sizes), (0, [8]))
        self.assertEqual(list(np.frombuffer(data, np.float32))[:3], [1.0, 2.0, -0.5])

    def test_rows_that_rope_turns_are_neighbours(self):
        _, tensors = self.convert({"model.layers.0.self_attn.q_proj.weight": bf16((8, 2)),
                                   "model.layers.0.self_attn.k_proj.weight": bf16((4, 2)),
                                   "model.layers.0.self_attn.v_proj.weight": bf16((4, 2))})
        first = {name: list(np.frombuffer(tensors[f"blk.0.attn_{name}.weight"][1], np.uint16)[::2])
                 for name in "qkv"}
        # Of a head of four rows, row i turns with row i + 2.
        self.assertEqual(first["q"], [0, 4, 2, 6, 8, 12, 10, 14])
        self.assertEqual(first["k"], [0, 4, 2, 6])
        self.assertEqual(first["v"], [0, 2, 4, 6])

    def test_frequencies(self):
        scaling = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
        divisors = gguf_file.rope_divisors({**CONFIG, "head_dim": 64, "rope_theta": 500000.0,
                                            "rope_scaling": scaling})
        self.assertEqual(len(divisors), 32)
        self.assertEqual((divisors[0], divisors[-1]), (1, 32))
        self.assertTrue((np.diff(divisors) >= 0).all())
        self.assertIsNone(gguf_file.rope_divisors(CONFIG))

    def test_what_is_not_compared(self):
        with self.assertRaisesRegex(ValueError, "no tensor of a Llama"):
            self.convert({"model.layers.0.self_attn.q_proj.bias": bf16((8,))})
        with self.assertRaisesRegex(ValueError, "only BF16"):
            self.convert({"model.norm.weight": bf16((8,))}, dtype="F16")
        with self.assertRaisesRegex(ValueError, "only Llama"):
            self.convert({"model.norm.weight": bf16((8,))}, {**CONFIG, "model_type": "qwen2"})


class Comparison(unittest.TestCase):
    def test_outputs(self):
        ours = llama_cpp.our_rates("kernel  shape\n" + json.dumps(OUR_ROWS))
        self.assertEqual(ours, {"decode, batch 1": 10.0, "decode, batch 8": 60.0,
                                "prefill 512": 300.0})
        theirs = llama_cpp.their_rates('load: x\n{"pl": 1, "speed_pp": 250.0, "speed_tg": 8.0}\n'
                                       '{"pl": 8, "speed_pp": 1.0, "speed_tg": 50.0}\n')
        self.assertEqual(theirs, {"decode, batch 1": 8.0, "decode, batch 8": 50.0,
                                  "prefill 512": 250.0})

    def test_medians_of_turns(self):
        def turn(ours, theirs):
            return ({what: ours for what in llama_cpp.WANTED},
                    {what: theirs for what in llama_cpp.WANTED})
        # The machine was slow in the second turn: its ratio counts, not its rates.
        rows = llama_cpp.compare([turn(12, 10), turn(6, 5), turn(14, 10)])
        self.assertEqual([row["ratio"] for row in rows], [1.2] * 3)
        self.assertEqual([row["met"] for row in rows], [True, True, False])
        self.assertEqual((rows[0]["ours"], rows[0]["theirs"]), (12, 10))
        printed = llama_cpp.table({"rows": {"avx2": rows}})
        self.assertIn("| avx2 | decode, batch 8 | 12.00 | 10.00 | **1.20**, missed (1.20, 1.20, 1.40)",
                      printed)

    def test_what_fails_is_said(self):
        with self.assertRaisesRegex(llama_cpp.Failed, "(?s)status 3.*wrong"):
            llama_cpp.call(["sh", "-c", "echo wrong >&2; exit 3"], 10)
        with self.assertRaisesRegex(llama_cpp.Failed, "more than"):
            llama_cpp.call(["sleep", "5"], 0.1)


if __name__ == "__main__":
    unittest.main()
