#!/usr/bin/env python3
"""Tests of the workloads' shapes, alternation, table and search for the best links; no torch needed."""

import argparse
import contextlib
import io
import sys
import tempfile
import types
import unittest
from pathlib import Path

import preload_workloads
import shapes

MIB = 1 << 20


class Shapes(unittest.TestCase):
    def test_parameters_are_as_many_as_published(self):
        published = {"Qwen3-0.6B": 596_049_920, "Qwen3-4B": 4_022_468_096,
                     "Qwen-7B-Chat": 7_721_324_544, "Qwen2.5-7B": 7_615_616_512,
                     "Qwen3-32B": 32_762_123_264}
        self.assertEqual({name: model.parameter_count() for name, model in shapes.MODELS.items()},
                         published)

    def test_kv(self):
        per_token = {name: model.kv_bytes(1) for name, model in shapes.MODELS.items()}
        self.assertEqual(per_token, {"Qwen3-0.6B": 114_688, "Qwen3-4B": 147_456,
                                     "Qwen-7B-Chat": 524_288, "Qwen2.5-7B": 57_344,
                                     "Qwen3-32B": 262_144})

    def test_sizes_suit_verification_by_words(self):
        for model in shapes.MODELS.values():
            for name, shape in model.parameters():
                self.assertEqual(2 * shapes.prod(shape) % 8, 0, name)

    def test_segments(self):
        def laid_out(*sizes):
            made = shapes.Segments()
            for size in sizes:
                made.add(size)
            return made.sizes
        self.assertEqual(laid_out(1, 512, MIB), [2 * MIB])
        self.assertEqual(laid_out(MIB, MIB, 1), [2 * MIB, 2 * MIB])
        self.assertEqual(laid_out(8 * MIB, 8 * MIB, 8 * MIB), [20 * MIB, 20 * MIB])
        self.assertEqual(laid_out(10 * MIB, 11 * MIB + 1), [10 * MIB, 12 * MIB])
        # A large tensor leaves what is left of a segment to others only where over 1 MiB is left.
        self.assertEqual(laid_out(19 * MIB // 2, 19 * MIB // 2, 2 * MIB), [20 * MIB, 20 * MIB])

    def test_segments_hold_the_weights(self):
        for model in shapes.MODELS.values():
            total = sum(shapes.segments_of(model))
            self.assertGreaterEqual(total, model.weight_bytes())
            self.assertLess(total, 1.07 * model.weight_bytes(), model.name)

    def test_unknown_models_are_named(self):
        with self.assertRaises(SystemExit) as raised:
            shapes.chosen(["GPT-5"], shapes.KV_MODELS)
        self.assertIn("GPT-5", str(raised.exception))


class Driver(unittest.TestCase):
    def setUp(self):
        self.options = argparse.Namespace(
            library=Path("/lib.so"), only=["sleep", "kv"], models=[], tokens=[16384],
            sleep_how=["allocator"], kv_how=["layers"], repeat=2, rounds=2, set=["A=b"], limit=60)
        self.calls = []

    def child(self, script, arguments, environment, _):
        self.calls.append((script, environment.get("LD_PRELOAD"), environment.get("A")))
        phase = "wake" if script == "sleep_wake.py" else "fetch"
        seconds = [0.5, 0.7] if environment else [1.0, 1.4]
        return [{"workload": script, "what": "m", "phase": phase, "bytes": 10**9, "seconds": seconds}]

    def run_all(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            return preload_workloads.alternate(self.options, Path(folder), self.child)

    def test_programs_alternate(self):
        self.run_all()
        bare, preloaded = (None, None), ("lib.so", "b")
        self.assertEqual([call[1:] for call in self.calls], 2 * [bare, preloaded, preloaded, bare])
        self.assertEqual([call[0] for call in self.calls], 4 * ["sleep_wake.py"] + 4 * ["kv_fetch.py"])

    def test_table(self):
        limits = {"H2D": {"rate": 4e9}, "D2H": {"rate": 1e9}}
        rows = preload_workloads.table_rows(self.run_all(), limits)
        self.assertEqual(len(rows), 2)
        row = rows[0]
        self.assertAlmostEqual(row["bare"], 1.2)
        self.assertAlmostEqual(row["preloaded"], 0.6)
        self.assertAlmostEqual(row["speed_up"], 2)
        self.assertAlmostEqual(row["limit"], 0.25)
        self.assertAlmostEqual(row["of_limit"], 0.25 / 0.6)
        line = preload_workloads.table(rows).splitlines()[1].split()
        self.assertEqual(line[2:], ["wake", "1.00", "1200.0", "600.0", "2.00", "1.7", "250.0", "0.42"])

    def test_without_library_and_limits(self):
        self.options.library = None
        rows = preload_workloads.table_rows(self.run_all(), None)
        self.assertTrue(all(call[1] is None for call in self.calls))
        self.assertEqual(rows[0]["preloaded"], None)
        self.assertIn("1200.0", preload_workloads.table(rows))

    def test_what_no_time_is_left_for_is_left_out(self):
        self.options.limit = -1
        self.assertEqual(self.run_all(), {})
        self.assertEqual(self.calls, [])

    def test_a_failing_program_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaises(preload_workloads.Failed):
                preload_workloads.run_child("no_such_program.py", [], {}, Path(folder) / "x")


class Limits(unittest.TestCase):
    """The search, with stand-ins for the modules that need a GPU."""

    def setUp(self):
        stand_ins = {name: types.ModuleType(name) for name in ("torch", "gpu_memory")}
        kept = {name: sys.modules.get(name) for name in stand_ins}
        sys.modules.update(stand_ins)
        import limits
        self.limits = limits
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module

    def best(self, gpus, rate):
        asked = []

        def counted(links):
            asked.append(links)
            return rate(links)
        return self.limits.best_set(gpus, counted), asked

    def test_few_links_are_tried_in_every_set(self):
        # Three links hinder each other; the pair 1, 3 is best.
        (links, rate), asked = self.best(4, lambda some: 100 if some == (1, 3) else 50 / len(some))
        self.assertEqual((links, rate, len(asked)), ((1, 3), 100, 15))

    def test_many_links_are_climbed(self):
        far = {0, 1, 2, 3}  # behind a socket that gives 80 in all
        def rate(some):
            near = sum(55 for gpu in some if gpu not in far)
            return min(near, 180) + min(80, sum(55 for gpu in some if gpu in far)) - 30 * len(
                far.intersection(some))
        (links, found), asked = self.best(8, rate)
        self.assertEqual(found, max(rate(some) for some in self.limits.every_set(8)))
        self.assertLess(len(asked), 130)
        self.assertEqual(found, rate(links))


if __name__ == "__main__":
    unittest.main()
