#!/usr/bin/env python3
"""Tables by what a benchmark varied, from a few rows of each benchmark's form."""

import unittest

import figures
import grids


def gemm(weight, m, measured, ratio):
    return {"name": "gemm_few_rows", "shape": f"{weight} {m} x 3072 x 2048", "measured": measured,
            "limit": measured / ratio, "ratio": ratio, "unit": "GB/s"}


def transfer(part, what, bar=None, met=True, **values):
    row = {"part": part, "what": what, "figures": values}
    return {**row, "bar": {"wanted": bar, "met": met}} if bar else row


class GridsTest(unittest.TestCase):
    def test_spans(self):
        self.assertEqual([figures.span(values) for values in ([3.0], [2.0, 1.0], [0.001, 0.002])],
                         ["3.00", "1.00–2.00", "0.00"])

    def test_products_have_gaps_where_nothing_was_measured(self):
        rows = [gemm("qkv", 1, 30.0, 0.9), gemm("qkv", 4, 28.0, 0.8), gemm("o", 1, 20.0, 0.5),
                {"name": "decode", "shape": "batch 1", "measured": 1, "limit": 1, "unit": "GB/s"}]
        self.assertEqual(grids.products({"rows": rows}, ""), [
            ["product", "1", "4"], ["limit", "33.33–40.00 GB/s", "35.00 GB/s"],
            ["qkv 3072 × 2048", "30.00 (0.90)", "28.00 (0.80)"],
            ["o 3072 × 2048", "20.00 (0.50)", ""]])

    def test_attention_of_the_cpu_names_its_heads_once_where_all_have_the_same(self):
        def row(name, shape, limit):
            return {"name": name, "shape": shape, "measured": 12.0, "unit": "GB/s", "limit": 32.5,
                    "limit_name": limit, "ratio": 0.369}
        rows = [row("attention_decode", "8 x context 4096, 32/8 heads of 64", "memory_read"),
                row("attention_prefill", "512 tokens, 32/8 heads of 64", "matmul_bf16"),
                gemm("qkv", 1, 30.0, 0.9)]
        self.assertEqual(grids.cpu_attention({"rows": rows}, ""), [
            ["attention, 32/8 heads of 64", "limit", "measured", "share"],
            ["decode, 8 × context 4096", "32.50 GB/s, memory_read", "12.00 GB/s", "0.37"],
            ["prefill, 512 tokens", "32.50 GB/s, matmul_bf16", "12.00 GB/s", "0.37"]])
        rows.append(row("attention_decode", "1 x context 512, 16/2 heads of 128", "memory_read"))
        self.assertEqual([line[0] for line in grids.cpu_attention({"rows": rows}, "")[1:]], [
            "decode, 8 × context 4096, 32/8 heads of 64", "prefill, 512 tokens, 32/8 heads of 64",
            "decode, 1 × context 512, 16/2 heads of 128"])

    def test_a_failed_request_of_a_server_is_counted(self):
        run = {"first_byte_us_p50": 200.0, "first_byte_us_p99": 573.4, "first_byte_failed": 3,
               "streams_complete": 1999, "streams_failed": 1, "streams_memory_bytes": 26308608}
        self.assertEqual(grids.first_bytes({"rows": [run, {**run, "first_byte_us_p99": 623.0}]}, "")[2:], [
            ["time to first byte, p99", "573.4–623.0 µs"], ["memory of all streams", "26.31 MB"],
            ["streams complete", "1,999"], ["streams and requests failed", "4"]])

    def test_chain_and_shapes(self):
        rows = [{"what": "read", "gb_per_s": 4664.5},
                {"what": "chain", "way": "chosen", "m": 8, "us": 3590.5, "floor_us": 3217.8},
                {"what": "chain", "way": "library", "m": 8, "us": 4037.7, "floor_us": 3217.8},
                *({"what": "shape", "weight": "o", "n": 4096, "k": 512, "m": m, "floor_us": 7.19,
                   "rows_us": rows, "split_us": split, "library_best_us": 13.13}
                  for m, rows, split in ((1, 10.13, 13.3), (64, 0.0, 16.1), (256, 0.0, 0.0)))]
        self.assertEqual(grids.chain({"rows": rows}, ""), [
            ["M", "floor, ms", "chosen", "library"], ["8", "3.22", "3.59 (1.116)", "4.04 (1.255)"]])
        self.assertEqual(grids.shapes({"rows": rows}, "")[1:], [
            ["o 4096 × 512", "7.2", "ours", "10.1", "16.1", ""], ["", "", "library", "13.1", "13.1", "13.1"]])
        self.assertEqual(grids.shapes({"rows": rows}, "M 64")[0][3:], ["64"])

    def test_shares_take_the_faster_way_of_staging_and_whole_ways(self):
        rows = [{"home": "host", "sms": 16, "way": way, "m": m, "alpha": alpha, "ms": ms}
                for way, m, alpha, ms in (
                    ("floor", 0, 0.0, 2.6), ("copy+gemm", 256, 0.0, 2.8), ("chunked", 256, 0.0, 2.5),
                    ("symmetric", 256, 1.0, 2.7), ("symmetric", 256, 0.5, 2.0), ("ring", 256, 0.0, 2.9),
                    ("ring", 256, 0.25, 1.0), ("ring", 512, 0.0, 9.0))]
        self.assertEqual(grids.shares({"rows": rows}, "M 256 host 16")[1:],
                         [["host, 16", "256", "2.600", "", "2.500", "", "2.700", "2.900"]])

    def test_products_at_home_name_our_way_and_the_best_rival(self):
        def row(what, limit, measured, rival, ours):
            return {"check": "bench gemm host", "what": what, "limit": limit, "measured": measured,
                    "values": {"floor_ms": 2.62, "rival_ms": rival, "ours_ms": ours}}
        rows = [row("132 SMs, M 1", "2.620 ms (read of W); 2.484 ms (chunked)",
                    "2.621 ms (symmetric, α 1)", 2.484, 2.6212),
                row("32 SMs, M 1", "2.624 ms (read of W); 2.477 ms (chunked)", "2.6 ms (ring, α 0)", 2.5, 2.6),
                {"check": "bench gemm", "what": "132 SMs, M 1"}]
        self.assertEqual(grids.home_gemm({"rows": rows}, "132 SMs"), [
            ["M", "floor, ms", "best rival", "ours"],
            ["1", "2.620", "2.484 (chunked)", "2.621 (symmetric)"]])

    def test_bars_of_transfers_name_the_worst_and_what_missed(self):
        small, share = "≤ 0.3 µs over native", "≥ 0.95 of the best set"
        times = {"native µs": 10.0}
        rows = [transfer("sizes", "in 1 KiB", small, **times, **{"ours µs": 10.1}),
                transfer("sizes", "in 4 KiB", small, False, **times, **{"ours µs": 10.5}),
                transfer("sizes", "in 8 KiB", small, False, **times, **{"ours µs": 10.4}),
                transfer("sizes", "out 1 KiB", small, **times, **{"ours µs": 9.9}),
                transfer("sizes", "in 1 MiB", "≤ 2 % over native", **times, **{"ours µs": 10.1}),
                transfer("of best set", "in 1 GiB, best 0", share, **{"best GB/s": 55, "of best": 0.98}),
                transfer("of best set", "in 2 GiB, best 0", share, **{"best GB/s": 55, "of best": 1.0}),
                transfer("memory", "GPU 0", "≤ 64 MiB", **{"staging": 1, "all of the engine MiB": 32.0}),
                transfer("gpus", "in 1, best 0", **{"best GB/s": 55.0})]
        self.assertEqual(grids.transfer_bars({"rows": rows}, "")[1:], [
            ["sizes: " + small, "4", "**0.50**, missed (4 KiB); **0.40**, missed (8 KiB)", "-0.10 (1 KiB)"],
            ["sizes: ≤ 2 % over native", "1", "1.00 (1 MiB)", ""],
            ["of best set: " + share, "2", "0.98 (1 GiB best 0)", ""],
            ["memory: ≤ 64 MiB", "1", "32.00 (GPU 0)", ""]])

    def test_transfers_by_size_links_and_neighbours(self):
        rates = {"native GB/s": 50.0, "ours GB/s": 100.0}
        rows = [transfer("sizes", "in 32 MiB", **rates), transfer("sizes", "out 32 MiB", **rates),
                *(transfer("gpus", what, **{"best GB/s": rate}) for what, rate in (
                    ("in 1, best 0", 55.0), ("in 2, best 0,1", 104.2), ("out 1, best 1", 54.0),
                    ("out 2, best 0,1", 105.1))),
                *(transfer("processes", f"{way}, the other's target is GPU 0", **{"sum GB/s": 103.1})
                  for way in ("in", "out"))]
        self.assertEqual(grids.transfer_sizes({"rows": rows}, "32MiB")[1:],
                         [["32 MiB", "50.0", "100.0", "2.00", "50.0", "100.0", "2.00"]])
        self.assertEqual(grids.transfer_links({"rows": rows}, "")[1:],
                         [["in", "55.0", "104.2"], ["out", "54.0", "105.1"]])
        self.assertEqual(grids.transfer_beside({"rows": rows}, "processes"), [
            ["processes, sum GB/s", "the other's target is GPU 0"], ["in", "103.10"], ["out", "103.10"]])
        with self.assertRaises(KeyError):
            grids.transfer_sizes({"rows": rows}, "64MiB")

    def test_workloads_put_lengths_of_one_model_together(self):
        rows = [{"workload": "KV", "what": what, "phase": phase, "bytes": size, "speed_up": times,
                 "of_limit": 0.5}
                for what, size, times in (("A, 16K tokens", 1e9, 1.5), ("A, 32K tokens", 2e9, 1.6),
                                          ("B", 3e9, 1.7)) for phase in ("store", "fetch")]
        self.assertEqual(grids.workloads({"kv": {"rows": rows}}, "kv"), [
            ["KV", "GB", "store", "fetch"],
            ["A: 16K, 32K", "1.00, 2.00", "1.50, 1.60 × (0.50, 0.50)", "1.50, 1.60 × (0.50, 0.50)"],
            ["B", "3.00", "1.70 × (0.50)", "1.70 × (0.50)"]])

    def test_rows_of_gpu_check(self):
        def check(name, **values):
            return {"check": name, "values": values}

        document = {"rows": [
            check("bench attention", model="A", batch="1", context="1024", us="6.10", ratio="6.60"),
            check("bench attention", model="A", batch="1", context="16384", us="30.49", ratio="2.06",
                  floor_us="14.80", lengths="mixed"),
            check("bench attention", model="A", kernel="F", tokens="1024", us="56.2", tflops="153",
                  share="0.19"),
            check("bench moe", model="M", tokens="8", front="", us="120.7", ratio="1.12"),
            check("bench moe", model="M", tokens="1", front="front", us="23.1", ratio="1.38"),
            check("bench sampling", what="greedy", rows="1", us="3.81", floor_us="0.11"),
            check("bench engine", steps=3, decode_steps=2, total_s=2.0, floor_s=1.0, decode_floor_s=0.5,
                  decode_on_gpu_s=0.75, bands=[
                      {"sequences_max": 0, "steps": 1, "floor_s": 0.5, "on_gpu_s": 1.0},
                      {"sequences_max": 8, "steps": 2, "floor_s": 0.5, "on_gpu_s": 0.75}]),
            check("bench engine", batch=8, floor_ms=3.65, alone_ms=3.99, on_gpu_ms=4.04,
                  in_engine_ms=4.05, not_overlapped_share=0.0012)]}
        self.assertEqual(grids.attention(document, ""), [["heads of", "1"], ["A", "6.10 (6.60)"]])
        self.assertEqual(grids.attention_lengths(document, "A")[1:],
                         [["1 × 16384, mixed", "14.80 µs", "30.49 µs", "2.06"]])
        self.assertEqual(grids.attention_prefill(document, "F")[1:],
                         [["A", "1024", "56.2 µs, 153 TFLOP/s", "0.19"]])
        self.assertEqual(grids.experts(document, ""), [
            ["tokens", "1", "8"], ["M", "", "120.7 (1.12)"], ["M, front", "23.1 (1.38)", ""]])
        self.assertEqual(grids.sampling(document, "")[1:], [["1", "0.11", "3.81"]])
        self.assertEqual(grids.engine(document, "")[1:], [
            ["all", "3", "1.000", "2.000", "2.000"], ["of it decode", "2", "0.500", "0.750", "1.500"],
            ["with prompts", "1", "0.500", "1.000", "2.000"],
            ["of ≤ 8 sequences", "2", "0.500", "0.750", "1.500"]])
        self.assertEqual(grids.host_time(document, "")[1:],
                         [["8", "3.650", "3.990", "4.040", "4.050", "0.12 %"]])

    def test_starts(self):
        rows = [{"figure": figure, "start": start, "measured": 272.37, "unit": "ms"}
                for figure in grids.STARTS for start in ("", "at once")]
        self.assertEqual(grids.starts({"rows": rows}, "")[:2], [
            ["", "just in time", "at once"], ["first token, from home", "272.4 ms", "272.4 ms"]])


if __name__ == "__main__":
    unittest.main()
