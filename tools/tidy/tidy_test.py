#!/usr/bin/env python3
"""Each rule must find its planted fault, and must not cry over clean code."""

import unittest
from pathlib import PurePosixPath

import house
import structure
from rooms import rooms
from rules import LAYERS
from tidy import Tree, check

CLEAN_HEADER = b"// Says what it is.\n#pragma once\nint f();\n"


def findings(files):
    tree = Tree({PurePosixPath(name): content if isinstance(content, bytes) else content.encode()
                 for name, content in files.items()})
    return check(tree)


class TidyTest(unittest.TestCase):
    def assert_finds(self, rule, files):
        found = {f.rule for f in findings(files)}
        self.assertIn(rule, found, f"expected a `{rule}` finding, got {found or 'none'}")

    def assert_clean(self, files):
        self.assertEqual(findings(files), [])

    def test_clean_code(self):
        self.assert_clean({
            "src/base/a.h": CLEAN_HEADER,
            "src/base/a.cc": '#include "base/a.h"\n\nint f() { return 1; }\n',
            "src/kv/b.cc": '#include "base/a.h"\nint g() { return f(); }\n',
        })

    def test_layers(self):
        lower = {"src/kv/a.h": CLEAN_HEADER}
        self.assert_finds("layers", lower | {"src/base/b.cc": '#include "kv/a.h"\n'})
        self.assert_finds("layers", lower | {"src/text/b.cc": '#include "kv/a.h"\n'})
        self.assert_finds("layers", {"src/attic/b.cc": "int x;\n"})
        self.assert_clean(lower | {"src/engine/b.cc": '#include "kv/a.h"\n'})

    def test_the_program_without_measuring(self):
        measures = {"apps/causeway/bench/a.h": CLEAN_HEADER,
                    "apps/causeway/bench/b.cc": '#include "bench/a.h"\n',
                    "apps/causeway/commands/c_test.cc": '#include "bench/a.h"\n'}
        self.assert_clean(measures)
        self.assert_finds("measuring", measures | {
            "apps/causeway/commands/d.cc": '#include "bench/a.h"\n'})

    def test_room_links(self):
        for wrong in ("causeway::bench_kernels", "causeway_bench_kernels", "causeway::model",
                      "causeway::text", "causeway::slice_testing"):
            self.assert_finds("room-links", {
                "src/kv/CMakeLists.txt": f"causeway_module(kv LINK causeway::base {wrong})\n"})
        self.assert_clean({
            "src/kv/CMakeLists.txt": "# Not causeway::model.\ncauseway_module(kv LINK causeway::base\n"
                                     "  LINK_TEST causeway::kv_testing causeway::transfer_testing)\n",
            "src/bench/kernels/CMakeLists.txt":
                "causeway_module(bench_kernels LINK causeway::kernels)\n",
            "apps/causeway/CMakeLists.txt": "causeway::bench_kernels\n"})

    def test_include_cycles(self):
        self.assert_finds("include-cycles", {
            "src/base/a.h": b'// A.\n#pragma once\n#include "base/b.h"\n',
            "src/base/b.h": b'// B.\n#pragma once\n#include "base/a.h"\n',
        })

    def test_banned_calls(self):
        for call in ("auto t = std::chrono::steady_clock::now();", "int r = rand();",
                     "std::this_thread::sleep_for(x);", 'auto e = getenv("X");',
                     "cudaDeviceSynchronize();", "auto* p = new int[3];", "delete p;",
                     "std::mt19937 engine(1);", 'printf("x");'):
            self.assert_finds("banned", {"src/kv/a.cc": f"void f() {{ {call} }}\n"})

    def test_banned_words_in_comments_strings_and_members(self):
        self.assert_clean({"src/kv/a.cc": (
            "// a new request; delete it; rand() is banned\n"
            'const char* kText = "new delete rand()";\n'
            "struct A { A(const A&) = delete; };\n")})

    def test_headers(self):
        user = {"src/kv/a.cc": '#include "kv/a.h"\n'}
        self.assert_finds("headers", user | {"src/kv/a.h": "// A.\nint f();\n"})
        self.assert_finds("headers", user | {"src/kv/a.h": "#pragma once\nint f();\n"})
        self.assert_finds("headers",
                          user | {"src/kv/a.h": "// A.\n#pragma once\nusing namespace std;\n"})

    def test_cuda_headers(self):
        self.assert_finds("cuda-headers", {"src/kv/a.cc": "#include <cuda_runtime.h>\n"})
        self.assert_clean({"src/device/cuda/a.cc": "#include <cuda_runtime.h>\n"})

    def test_file_size(self):
        self.assert_finds("size", {"src/kv/a.cc": "int x;\n" * 801})
        self.assert_clean({"src/kv/a.cc": "int x;\n" * 800})

    def test_function_size(self):
        def function(head, lines):
            return f"{head} {{\n" + "  x();\n" * (lines - 2) + "}\n"
        self.assert_finds("size", {"src/text/a.cc": function("void f(int a)", 71)})
        self.assert_finds("size", {"src/text/a.cc": function("void A::f(int a) const noexcept", 71)})
        self.assert_clean({"src/text/a.cc": function("void f(int a)", 70)})
        self.assert_clean({"src/text/a.cc": function("namespace kv", 90)})
        self.assert_clean({"src/kernels/a.cu": function("__global__ void f(int a)", 250)})
        self.assert_finds("size", {"src/kernels/a.cu": function("__global__ void f(int a)", 251)})

    def test_python_function_size(self):
        body = "    if a:\n        a()\n" * 34
        self.assert_clean({"tools/a.py": "a = [\n" + "    1,\n" * 80 + "]\ndef f(a):\n    a()\n" + body})
        self.assert_finds("size", {"tools/a.py": "def f(a):\n    a()\n    a()\n" + body})
        self.assert_finds("size", {"tests/a.py": "class A:\n async def f(a):\n    a()\n    a()\n" + body})
        self.assert_finds("size", {"tools/a.py": "def f(a:\n"})

    def test_assertion_floors(self):
        body = "int f(int a) {\n  a += 1;\n  a += 2;\n  return a;\n}\n"
        self.assert_finds("assertions", {"src/kv/a.cc": body})
        self.assert_clean({"src/kv/a.cc": body.replace("  a += 1;", "  CAUSEWAY_DCHECK(a > 0);")})
        self.assert_clean({"src/kv/a_test.cc": body, "src/kv/testing/b.cc": body,
                           "src/kv/CMakeLists.txt": "", "src/text/c.cc": body,
                           "src/kv/d.cc": "int f() {\n  return 1;\n}\n"})

    def test_assertions_are_counted(self):
        text = ('// CAUSEWAY_CHECK(x);\nstatic_assert(true);\nStatus f(int a) {\n  CAUSEWAY_CHECK(a);\n'
                '  CAUSEWAY_DCHECK(a, "CAUSEWAY_CHECK(b)");\n  return corrupt("a");\n}\nStatus g() { return broken_frame("b"); }\n')
        for name, counted in (("src/kv/a.cc", 3), ("src/kv/a_integrity.cc", 5)):
            self.assertEqual(rooms(Tree({PurePosixPath(name): text.encode()}))["kv"].assertions,
                             counted)

    def test_the_house_before_and_now(self):
        def tree(files):
            return Tree({PurePosixPath(name): text.encode() for name, text in files.items()})
        short = "int f(int a) {\n  CAUSEWAY_CHECK(a);\n  a += 1;\n  return a;\n}\n"
        long = "__global__ void g(int a) {\n" + "  a += 1;\n" * 80 + "}\n"
        before = tree({"src/kv/a.cc": short, "src/kv/gone.cc": "int x;\n", "docs/a.md": "one two\n"})
        now = tree({"src/kv/a.cc": short + "int y;\n", "src/kv/b.cu": long,
                    "src/kv/a_test.cc": long, "apps/c.cc": short, "docs/a.md": "one\n",
                    "docs/papers/b.md": "two three\n", "docs/measurements/c.md": "four\n"})
        self.assertEqual(house.table(before, now)[2:], [
            "|lines|6|88|", "|of the 1 files that are in both|5|6|",
            "|functions; lines: median, longest|1; 5, 5|2; 44, 82|",
            "|longest that is no GPU kernel|5|5|", "|functions above 70 lines; of these GPU kernels|0; 0|1; 1|",
            "|words of measurements and papers; of all pages|0; 2|3; 4|",
            "|assertions a function: kv, schedule, engine, transfer, fleet, preload"
            "|1.00, –, –, –, –, –|0.50, –, –, –, –, –|"])

    def test_options_in_libraries(self):
        for line in ('f("raise --max-num-seqs");', 'f("--gpu 1 is none");', 'g(1, "(see --gpu)");',
                     'f("see CUDA_VISIBLE_DEVICES");', 'f("LD_LIBRARY_PATH");',
                     'f(a + "; `causeway topology` shows it");'):
            self.assert_finds("options", {"src/text/a.cc": f"void f() {{ {line} }}\n"})
            self.assert_clean({"apps/causeway/a.cc": f"void f() {{ {line} }}\n",
                               "src/text/b_fuzz.cc": f"void f() {{ {line} }}\n"})
        self.assert_clean({"src/preload/b.cc": 'f("CAUSEWAY_ASYNC=native helps");\n',
                           "src/text/a.cc": '// See "--gpu", "LD_X_Y".\nint f(int a) { return --a; }\n'
                                            'const char* kEnd = "-->";\n'})

    def test_riddles(self):
        for text in ("// Nobody waits.\n", 'f("it is open to whoever asks");\n',
                     "int x = 1;  // for who asks\n", "/* Somebody\n   waits. */\n"):
            self.assert_finds("words", {"src/kv/a.cc": text})
            self.assert_clean({"src/kv/a_test.cc": text, "src/kv/CMakeLists.txt": ""})
        self.assert_clean({"src/kv/a.cc": "// The whole of it.\nint who = nobody(1);\n",
                           "src/model/b.cc": "// For somebody who asks.\n"})
        self.assert_finds("words", {"src/model/b.cc": "// For somebody who asks, or nobody.\n"})
        self.assert_finds("words", {"docs/a.md": "Whoever asks.\n"})
        self.assert_clean({"docs/a.md": "`test_delays_nobody`, and a client who asks.\n"})

    def test_fragments(self):
        for text in ("// Of a step.\n", "int x = 1;  // Of the last one.\n", "/* Of a step. */\n",
                     "// A step's end.\n// Of a request nothing is known.\n"):
            self.assert_finds("fragments", {"src/kv/a.cc": text})
            self.assert_finds("fragments", {"tests/e2e/a.cu": text})
            self.assert_clean({"apps/causeway/a.cc": text})
        self.assert_clean({"src/kv/a.cc": "// Offers frames. Of these, one is free.\n"
                                          'const char* kText = "// Of no interest";\n'})

    def test_architecture(self):
        table = "".join(f"| {layer} | `{name}` | x |\n" for name, layer in LAYERS.items())
        self.assert_clean({"ARCHITECTURE.md": table + "`text/a.cc`\n", "src/text/a.cc": "int x;\n"})
        self.assert_finds("architecture", {"ARCHITECTURE.md": table.replace("| 6 |", "| 7 |")})
        self.assert_finds("architecture", {"ARCHITECTURE.md": table + "| 3 | `attic` | x |\n"})
        self.assert_finds("architecture", {"ARCHITECTURE.md": table + "`text/b.cc`\n"})

    def test_picture_of_the_rooms(self):
        table = "".join(f"| {layer} | `{name}` | x |\n" for name, layer in LAYERS.items())
        files = {"src/base/a.h": CLEAN_HEADER, "src/device/b.h": CLEAN_HEADER,
                 "src/device/b.cc": '#include "base/a.h"\n#include "device/b.h"\n',
                 "src/kv/c.cc": '#include "base/a.h"\n#include "device/b.h"\n',
                 "src/kv/c_test.cc": '#include "transfer/x.h"\n', "src/kv/CMakeLists.txt": ""}
        right = "```\n 3  kv        ─▶ device\n 1  device    ─▶ base\n 0  base\n```\n"
        page = {"ARCHITECTURE.md": table + structure.BEGIN + right + structure.END + "\n"}
        self.assert_clean(files | page)
        self.assert_finds("architecture", files | page | {"src/kv/c.cc": "int x;\n"})
        self.assert_finds("architecture", files | {
            "ARCHITECTURE.md": table + structure.BEGIN + structure.END + "\n"})

    def test_numbered_decisions(self):
        self.assert_finds("decisions", {"src/text/a.cc": "// As decision 8 says.\n"})
        self.assert_clean({"src/text/a.cc": "// docs/decisions/0014-seams.md\n",
                           "docs/decisions/0014-seams.md": "# Seams\n"})

    def test_columns(self):
        self.assert_finds("columns", {"src/kv/a.cc": "// " + "x" * 98 + "\n"})
        self.assert_clean({"src/kv/a.cc": "// " + "é" * 97 + "\n"})

    def test_prose_columns(self):
        self.assert_finds("prose-columns", {"docs/a.md": "x" * 101 + "\n"})
        self.assert_finds("prose-columns", {"src/kv/README.md": "| a |\n\n- " + "x " * 50 + "\n"})
        self.assert_finds("prose-columns", {"docs/a.md": "```\ncode\n```\n" + "é" * 101 + "\n"})
        self.assert_clean({"docs/a.md": "é" * 100 + "\n"})
        self.assert_clean({"docs/a.md": (
            "| " + "x" * 100 + " |\n```\n" + "x" * 101 + "\n```\n\n    " + "x" * 101 + "\n"
            + "x" * 80 + " [it](https://example.org/" + "x" * 80 + ")\n")})

    def test_measurement_words(self):
        half = {"docs/measurements/a.md": "x\n" * 4000}
        self.assert_clean(half | {"docs/measurements/b.md": "x\n" * 4000})
        self.assert_clean(half | {"docs/design/b.md": "x\n" * 4001})
        self.assert_clean(half | {"docs/measurements/b.json": "x\n" * 4001})
        self.assert_finds("measurement-words", half | {"docs/measurements/b.md": "x\n" * 4001})
        self.assert_clean(half | {"docs/papers/b.md": "x\n" * 4000})
        self.assert_finds("measurement-words", half | {"docs/papers/b.md": "x\n" * 4001})

    def test_design_commits(self):
        for text in ("It took 3 s at 0e14327.\n", "Mended (`4d8a5548`), see there.\n",
                     "| two threads, 6fc72cbd | 52.6 s |\n", "f30ac1832f768db7ba1d7870ff55b62a5aa0c324\n"):
            self.assert_finds("design-commits", {"docs/design/a.md": text})
            self.assert_clean({"docs/measurements/a.md": text, "docs/a.md": text})
        self.assert_clean({"docs/design/a.md": (
            "Seed 22112026, 3,513,813 requests, defaced, deadbeef, 1a2b3c, 0x1234567f, 1234567-f,\n"
            "x1234567f, a/1234567f.\n")})

    def test_a_page_of_design_may_have_the_commits_that_it_had(self):
        line = "None broke a rule at 1c53450.\n"
        self.assert_clean({"docs/design/fleet.md": line})
        self.assert_finds("design-commits", {"docs/design/fleet.md": 2 * line})

    def test_links(self):
        page = {"docs/design/a.md": "A.\n"}
        self.assert_finds("links", page | {"docs/b.md": "see [a](a.md)\n"})
        self.assert_finds("links", page | {"docs/b.md": "see [a](../design/a.md#there)\n"})
        self.assert_finds("links", page | {"src/kv/a.cc": "// see docs/design/b.md.\n"})
        self.assert_clean(page | {
            "docs/b.md": "[a](design/a.md#there), [all](design), [x](https://example.org), [y](#z)\n",
            "src/kv/a.cc": "// see docs/design/a.md.\n"})

    def test_planted_bugs(self):
        def patch(bug):
            return f"--- a/src/kv/a.cc\n+++ b/src/kv/a.cc\n@@ -1 +1,2 @@\n f();\n+g(CAUSEWAY_PLANTED({bug}));\n"
        one, two = "src/kv/canaries/01-a.patch", "src/kv/canaries/02-b.patch"
        page = {"docs/decisions/0015-planted-bugs.md": "Bugs are planted: 2,\neach with a test.\n"}
        tree = page | {one: patch(1), two: patch(2), "src/kv/a.cc": "f();\n",
                       "src/kv/CMakeLists.txt": "foreach(bug RANGE 1 2)\n"}
        self.assert_clean(tree)
        for more in ({"src/kv/CMakeLists.txt": "foreach(bug RANGE 1 1)\n"},
                     {"src/kv/CMakeLists.txt": "foreach(bug RANGE 1 3)\n"},
                     {"docs/decisions/0015-planted-bugs.md": "Bugs are planted: 3, each with\n"},
                     {two: patch(3)},
                     {two: patch(2).replace("src/kv", "src/engine")},
                     {two: patch(2).replace("a.cc", "b.cc")},
                     {"src/kv/a.cc": "g();\n"},
                     {"src/kv/a.cc": "void f() { if (CAUSEWAY_PLANTED(1)) g(); }\n"}):
            self.assert_finds("planted-bugs", tree | more)

    def test_unfinished(self):
        self.assert_finds("unfinished", {"src/kv/a.cc": "// TODO: later\n"})

    def test_dead_headers(self):
        self.assert_finds("dead", {"src/kv/a.h": CLEAN_HEADER})

    def test_registered_tests(self):
        self.assert_finds("unregistered", {"tests/e2e/x_test.py": "pass\n"})
        self.assert_finds("unregistered", {"src/kv/x_test.cc": "int x;\n"})
        self.assert_clean({"tests/e2e/x_test.py": "pass\n",
                           "tests/CMakeLists.txt": "add_test(x x_test.py)\n"})

    def test_blobs(self):
        self.assert_finds("blobs", {"docs/x.png": b"x" * (256 * 1024 + 1)})

    def test_absolute_paths(self):
        self.assert_finds("absolute-paths", {"README.md": "see /home/" + "someone/x\n"})
        self.assert_clean({"README.md": "see docs/home/x and /usr/bin/env\n"})

    def test_request_fields(self):
        source = "src/server/api/parse_neutral.cc"
        page = "docs/design/request_fields.md"
        code = ('constexpr A kHarmless = {"user",\n  "store"};\n'
                'constexpr B kNeutralTexts = {{{"verbosity", {"medium", "medium"}}}};\n'
                'constexpr C kNeutralNumbers = {{{"best_of", 1}}};\n'
                'void f() { fields.value("modalities"); }\n')
        rows = [f"| `{name}` | always | why |\n"
                for name in ("user", "store", "verbosity", "best_of", "modalities")]
        self.assert_clean({source: code, page: "".join(rows)})
        for row in rows:
            self.assert_finds("request-fields", {source: code, page: "".join(set(rows) - {row})})
        self.assert_finds("request-fields", {source: code, page: "".join(rows) + "| `n` | 1 | x |\n"})

    def test_conformance(self):
        page = "docs/conformance.md"
        there = {"src/kv/a_test.cc": "TEST(Kv, Grows) {}\n", "src/kv/CMakeLists.txt": "",
                 "tests/e2e/b_test.py": "def test_it(self): pass\n", "tests/CMakeLists.txt": "b_test.py"}
        self.assert_clean(there | {page: (
            "| x | `src/kv/a_test.cc:Grows`, `src/kv/a_test.cc`, `tests/e2e/b_test.py:test_it` |\n")})
        for name in ("src/kv/c_test.cc", "src/kv/a_test.cc:Shrinks", "tests/e2e/b_test.py:test"):
            self.assert_finds("conformance", there | {page: f"| x | `{name}` |\n"})


if __name__ == "__main__":
    unittest.main()
