#!/usr/bin/env python3
"""scripts/bundle, demo and test in a copy of the checkout, where nothing is built or installed and
the program is a stand-in."""

import lzma
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTHING_BUILT = """
install_packages() { :; }
install_python() { :; }
install_clients() { :; }
install_flashinfer() { :; }
install_xgrammar() { :; }
configure() { :; }
build() { :; }
"""
TOOLS = {
    "ninja": "exit 0",
    "strip": 'while [ $# -gt 2 ]; do [ "$1" = -o ] && out=$2; shift; done; cp "$2" "$out"',
    "ldd": 'echo "liblocal.so.1 => ${LD_LIBRARY_PATH:-$(dirname "$0")/..}/liblocal.so.1 (0x1)"',
    "nvidia-smi": "exit 1",
}


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text + "\n", encoding="utf-8")
    path.chmod(0o755)


class Checkout(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.root = self.folder / "checkout"
        self.caller = self.folder / "caller"
        self.caller.mkdir()
        for name in ("scripts", "tools", "tests"):
            shutil.copytree(ROOT / name, self.root / name)
        shutil.copy(ROOT / "LICENSE", self.root)
        with open(self.root / "scripts/lib.sh", "a", encoding="utf-8") as library:
            library.write(NOTHING_BUILT)
        for name, text in TOOLS.items():
            program(self.folder / "tools" / name, text)
        program(self.root / "build/release/bin/causeway", "echo 'causeway of tests'")
        program(self.root / "build/release/tests/e2e/libfaulty_driver.so", "")
        program(self.folder / "liblocal.so.1", "")
        self.environment = {"PATH": f"{self.folder / 'tools'}:/usr/bin:/bin",
                            "HOME": str(self.folder)}
        self.git("init", "-q")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty",
                 "-m", "first")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.root, env=self.environment, check=True)

    def run_script(self, name, *arguments):
        return subprocess.run([str(self.root / "scripts" / name), *arguments], cwd=self.caller,
                              env=self.environment, capture_output=True, text=True, timeout=60,
                              check=False)


class Bundle(Checkout):
    def bundle(self, *arguments):
        return self.run_script("bundle", "--no-python", *arguments)

    def test_is_made_where_the_caller_says_and_replaces_a_bundle(self):
        for _ in range(2):
            done = self.bundle("--out", "made")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(lzma.open(self.caller / "made/bin/causeway.xz").read(),
                         (self.root / "build/release/bin/causeway").read_bytes())
        self.assertFalse((self.root / "made").exists())

    def test_is_everybodys_once_unpacked(self):
        self.assertEqual(self.bundle("--out", "made").returncode, 0)
        subprocess.run([str(self.caller / "made/causeway")], env=self.environment, check=True)
        self.assertEqual((self.caller / "made/unpacked").stat().st_mode & 0o777, 0o755)

    def test_a_commit_is_needed(self):
        shutil.rmtree(self.root / ".git")
        self.assertEqual(self.bundle("--out", "made").returncode, 1)
        self.assertFalse((self.caller / "made").exists())

    def test_nothing_but_a_bundle_is_deleted(self):
        for out in (self.caller / "work", self.root / "docs"):
            out.mkdir()
            (out / "mine").write_text("dear", encoding="utf-8")
        (self.caller / "file").write_text("dear", encoding="utf-8")
        for out in ("work", str(self.root / "docs"), "../checkout/docs", ".", "file"):
            done = self.bundle("--out", out)
            self.assertEqual(done.returncode, 1, out)
            self.assertIn("no", done.stderr)
        for kept in ("caller/work/mine", "checkout/docs/mine", "caller/file"):
            self.assertEqual((self.folder / kept).read_text(encoding="utf-8"), "dear")


class Demo(Checkout):
    def test_models_of_the_caller(self):
        program(self.root / "build/demo/bin/causeway", 'echo "$@"; exit 1')
        done = self.run_script("demo", "--models-dir", "mine")
        self.assertIn(f"models list --models-dir {self.caller}/mine", done.stdout)

    def test_gpu_kernels_are_built_where_a_gpu_answers_or_when_asked_for(self):
        for preset in ("demo", "release"):
            program(self.root / f"build/{preset}/bin/causeway", f"echo program of {preset}; exit 1")
        self.assertIn("to have them: scripts/demo --cuda", self.run_script("demo").stdout)
        self.assertIn("program of demo", self.run_script("demo").stdout)
        self.assertIn("program of release", self.run_script("demo", "--cuda").stdout)
        program(self.folder / "tools/nvidia-smi", "echo 'GPU 0: of tests'")
        self.assertIn("program of release", self.run_script("demo").stdout)

    def test_half_made_models_are_made_again(self):
        program(self.root / "build/demo/bin/causeway",
                '[ "$3" = make-model ] || exit 1; [ -z "$(ls -A "$4" 2>/dev/null)" ] || exit 3\n'
                'mkdir -p "$4" && echo {} >"$4/config.json"')
        half = self.root / "demo/models/tiny-llama"
        half.mkdir(parents=True)
        (half / "model.safetensors.partial").write_text("", encoding="utf-8")
        self.run_script("demo")
        self.assertEqual(len(list(self.root.glob("demo/models/*/config.json"))), 4)


# Of asan the first build is the one beside the tests of release: it ends when those do, or is ended.
BUILDS = """
build() {
  [ "$1" != asan ] || [ -e began ] || nice >nice
  mkdir -p "build/$1"
  echo "build $*" >>events
  if [ "$1" = asan ] && [ ! -e began ]; then
    touch began
    for ((i = 0; i < 600; ++i)); do [ -e tests-ended ] && break; sleep 0.05; done
  fi
  echo "built $*" >>events
}
"""
TESTS = """
results=$2/Testing/Temporary
mkdir -p "$results"
touch "$results/LastTest.log"
case "$*" in
  *rerun-failed*) echo "alone $2" >>events; exit 0 ;;
esac
if [ "$2" = build/release ]; then
  for ((i = 0; i < 600; ++i)); do [ -e began ] && break; sleep 0.05; done
fi
echo "tests $2" >>events
echo "100% tests passed, 0 tests failed out of 1"
if [ "$2" = build/release ]; then release; fi
"""


class Test(Checkout):
    def run_lanes(self, release):
        """release and asan, where the tests of release do this."""
        with open(self.root / "scripts/lib.sh", "a", encoding="utf-8") as library:
            library.write(BUILDS)
        program(self.folder / "tools/ctest", f"release() {{ {release}; }}\n{TESTS}")
        done = self.run_script("test", "release", "asan")
        return done, (self.root / "events").read_text(encoding="utf-8").splitlines()

    def test_the_next_lane_is_built_beside_tests(self):
        done, events = self.run_lanes("touch tests-ended")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(events, ["build release causeway_transfer",
                                  "built release causeway_transfer",
                                  "build release", "built release", "build asan unit_tests",
                                  "tests build/release", "built asan unit_tests",
                                  "build asan unit_tests", "built asan unit_tests",
                                  "tests build/asan"])
        self.assertEqual((self.root / "nice").read_text(encoding="utf-8"), "19\n")

    def test_what_failed_beside_others_runs_again_when_that_build_has_ended(self):
        done, events = self.run_lanes("touch tests-ended; echo 1:a_test >$results/LastTestsFailed.log;"
                                      " exit 8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(events.index("built asan unit_tests"), events.index("alone build/release"))
        self.assertIn("FAILED BESIDE OTHERS, passed alone: a_test", done.stdout)

    def test_that_build_ends_with_the_script(self):
        done, events = self.run_lanes("echo 'ERROR: AddressSanitizer: ' >$results/LastTest.log;"
                                      " exit 8")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a sanitizer's report", done.stderr)
        (self.root / "tests-ended").touch()
        time.sleep(0.5)  # the build would see that now
        after = (self.root / "events").read_text(encoding="utf-8").splitlines()
        self.assertNotIn("built asan unit_tests", after)


class Library(Checkout):
    def progress(self, seconds, text):
        command = f"source scripts/lib.sh; kProgressSeconds={seconds}; progress_lines"
        done = subprocess.run(["bash", "-c", command], cwd=self.root, input=text,
                              env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    def test_progress_is_shown_now_and_then_and_warnings_always(self):
        steps = "  [1 of 3, 0.1 s] Building a\na.cc:1: warning\n  [2 of 3, 0.2 s] Building b\n"
        self.assertEqual(self.progress(600, steps), ["a.cc:1: warning"])
        self.assertEqual(self.progress(0, steps),
                         ["  [1 of 3, 0.1 s]", "a.cc:1: warning", "  [2 of 3, 0.2 s]"])

    def test_compiler_cache_where_home_cannot_be_written(self):
        (self.folder / "file").write_text("", encoding="utf-8")
        for home, wanted in ((self.folder, ""), (self.folder / "file", ".cache/ccache")):
            self.environment["HOME"] = str(home)
            done = subprocess.run(["bash", "-c", 'source scripts/lib.sh; echo "${CCACHE_DIR:-}"'],
                                  cwd=self.root, env=self.environment, capture_output=True,
                                  text=True, check=True)
            self.assertEqual(done.stdout.strip(), wanted and str(self.root / wanted))


if __name__ == "__main__":
    unittest.main()
