#!/usr/bin/env python3
"""Every family that `make-model` knows, behind one server; and what a sliding window changes."""

import re
import tempfile
import unittest
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, make_model, run_causeway

SHORT = [40, 41, 42]
LONG = [40 + i % 200 for i in range(90)]
WINDOW = 32


def families():
    """As the program names them."""
    said = run_causeway("make-model", "--help").stdout
    return re.search(r"--family TEXT:\{(.*?)\}", said).group(1).split(",")


class Families(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = families()
        cls.folder = tempfile.TemporaryDirectory()
        root = Path(cls.folder.name)
        for name in cls.names:
            make_model(root / name, name)
        # The same weights: the seed and the tensors' names are the same.
        make_model(root / "windowed", "mistral", window=WINDOW)
        cls.server = RunningServer("--models-dir", root, *TINY_MEMORY)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def answer(self, model, prompt):
        made = self.server.complete(model, prompt, max_tokens=24, temperature=0, ignore_eos=True)
        self.assertEqual(made["usage"]["completion_tokens"], 24)
        return made["choices"][0]["text"]

    def test_each_answers_the_same_again(self):
        self.assertGreaterEqual(len(self.names), 7)
        for name in self.names:
            with self.subTest(name):
                self.assertEqual(self.answer(name, LONG), self.answer(name, LONG))

    def test_a_window_matters_beyond_its_length(self):
        self.assertEqual(self.answer("windowed", SHORT), self.answer("mistral", SHORT))
        self.assertNotEqual(self.answer("windowed", LONG), self.answer("mistral", LONG))

    def test_what_has_left_the_windows_of_all_layers_is_forgotten(self):
        # Two layers look back twice as far as one, less one.
        tail = LONG[:2 * WINDOW]
        first, second = [50 + i % 100 for i in range(50)] + tail, [300 - i for i in range(50)] + tail
        self.assertEqual(self.answer("windowed", first), self.answer("windowed", second))
        self.assertNotEqual(self.answer("mistral", first), self.answer("mistral", second))


if __name__ == "__main__":
    unittest.main()
