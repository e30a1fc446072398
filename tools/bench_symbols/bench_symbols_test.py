#!/usr/bin/env python3
"""bench_symbols.py on listings as `nm --format=posix` prints them."""
import unittest

from bench_symbols import faults

RUN = "_ZN8causeway7kernels5bench3runEv"
BENCH = {"bench.a": f"bench.a[run.o]:\n{RUN} T 0000 0010\n_ZN8causeway6inlineEv W 0000 0010\n"
                    "_ZL5local t 0000 0010\nmain T 0000 0010\n"}
KERNEL = "_ZN8causeway7kernels4gemmEv T 0000 0010\n"


class BenchSymbols(unittest.TestCase):
    def test_separate(self):
        product = KERNEL + "_ZN8causeway6inlineEv W 0000 0010\nmemcpy U\nmain T 0000 0010\n"
        self.assertEqual(faults(BENCH, {"kernels.a": product}), [])

    def test_defined(self):
        for letter in "TtRr":
            found = faults(BENCH, {"kernels.a": KERNEL + f"{RUN} {letter} 0000 0010\n"})
            self.assertEqual(found, [f"kernels.a has {RUN}, which is of src/bench"])

    def test_needed(self):
        found = faults(BENCH, {"kernels.a": KERNEL + f"{RUN} U\n"})
        self.assertEqual(found, [f"kernels.a needs {RUN} of src/bench"])

    def test_nothing_to_compare(self):
        self.assertEqual(len(faults({"bench.a": ""}, {"kernels.a": KERNEL})), 1)
        self.assertEqual(len(faults(BENCH, {"kernels.a": ""})), 1)


if __name__ == "__main__":
    unittest.main()
