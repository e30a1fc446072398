#!/usr/bin/env python3
"""What packages are made of, checked without installing any: the service, its configuration, the
launchers, the preloaded library, the maker of wheels and the Containerfile. scripts/test packages
installs the real ones. CAUSEWAY_BINARY is the program, CAUSEWAY_PRELOAD_LIBRARY the library."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
BINARY = os.environ["CAUSEWAY_BINARY"]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=100, check=False, **options)


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text + "\n", encoding="utf-8")
        path.chmod(0o755)
        return path


class Service(Folder):
    def setUp(self):
        super().setUp()
        self.text = (PACKAGING / "causeway.service").read_text(encoding="utf-8")

    def setting(self, name):
        return re.search(rf"^{name}=(.*)$", self.text, re.M).group(1)

    def test_systemd_accepts_it(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        unit = self.folder / "causeway.service"
        unit.write_text(self.text.replace("/usr/bin/causeway", "/bin/true"), encoding="utf-8")
        done = run("systemd-analyze", "verify", "--man=no", unit)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        exposed = run("systemd-analyze", "security", "--offline=yes", "--threshold=40", unit)
        self.assertEqual(exposed.returncode, 0, exposed.stdout[-300:])

    def test_stopping_waits_for_the_drain(self):
        shown = run(BINARY, "serve", "--help").stdout
        grace = float(re.search(r"--shutdown-grace .*=(\d+)$", shown, re.M).group(1))
        answers_of_errors = 5  # kErrorsGrace of serve.cc
        self.assertGreaterEqual(int(self.setting("TimeoutStopSec")), grace + answers_of_errors + 10)
        self.assertEqual(self.setting("KillMode"), "mixed")

    def test_runs_the_program_with_the_configuration_that_is_installed(self):
        self.assertEqual(shlex.split(self.setting("ExecStart")),
                         ["/usr/bin/causeway", "serve", "--config", "/etc/causeway/causeway.yaml"])
        files = (PACKAGING / "debian/conffiles").read_text(encoding="utf-8").split()
        self.assertIn("/etc/causeway/causeway.yaml", files)


class Configuration(Folder):
    def test_the_program_takes_it_with_every_example_in_force(self):
        text = (PACKAGING / "causeway.yaml").read_text(encoding="utf-8")
        for case, written in (("as installed", text),
                              ("examples", re.sub(r"^# (?=[a-z-]+: \S+$)", "", text, flags=re.M))):
            with self.subTest(case):
                if case == "examples":
                    self.assertIn("\ndevice: cuda", written)
                    written = written.replace("device: cuda", "device: cpu")
                file = self.folder / "causeway.yaml"
                file.write_text(written, encoding="utf-8")
                done = run(BINARY, "serve", "--config", file, "--models-dir", self.folder / "none")
                self.assertIn("none", done.stderr)
                self.assertNotIn("causeway.yaml", done.stderr)

    def test_a_wrong_key_would_be_noticed(self):
        file = self.folder / "causeway.yaml"
        file.write_text("models-dri: x\n", encoding="utf-8")
        done = run(BINARY, "serve", "--config", file, "--models-dir", self.folder / "none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("models-dri", done.stderr)


class Scripts(Folder):
    def test_shells_read_them(self):
        for script in [PACKAGING / "causeway-preload", *PACKAGING.glob("debian/p*")]:
            with self.subTest(script.name):
                self.assertEqual(run("sh", "-n", script).stderr, "")

    def test_preload_runs_the_program_with_the_library_before_others(self):
        # The real library, which is not installed here, would be a warning of ld.so's.
        copy = self.folder / "causeway-preload"
        text = (PACKAGING / "causeway-preload").read_text(encoding="utf-8")
        library = self.folder / "library.so"
        copy.write_text(re.sub(r"^library=.*$", f"library={library}", text, flags=re.M))
        for others, wanted in (("", str(library)), ("libm.so.6", f"{library}:libm.so.6")):
            done = run("sh", copy, "sh", "-c", 'echo "$LD_PRELOAD" "$1"; exit 3', "-", "a b",
                       env={"PATH": os.environ["PATH"], "LD_PRELOAD": others} if others
                       else {"PATH": os.environ["PATH"]})
            self.assertEqual((done.stdout, done.returncode), (f"{wanted} a b\n", 3))
        self.assertEqual(run("sh", copy).returncode, 2)


class PreloadLibrary(unittest.TestCase):
    def test_needs_glibc_alone(self):
        """Another library would be loaded into every program, beside that program's own version."""
        library = os.environ.get("CAUSEWAY_PRELOAD_LIBRARY")
        if library is None:
            self.skipTest("this build has no libcauseway-preload.so")
        read = run("readelf", "-d", library)
        self.assertEqual(read.returncode, 0, read.stderr)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", read.stdout)
        self.assertIn("libc.so.6", needed)
        glibc = r"(lib(c|m|dl|rt|pthread)\.so\.\d|ld-linux-x86-64\.so\.2)"
        self.assertEqual([name for name in needed if not re.fullmatch(glibc, name)], [])


class Wheel(Folder):
    def make(self):
        tree = self.folder / "tree"
        shutil.copytree(PACKAGING / "wheel/causeway", tree / "causeway")
        self.program(tree / "causeway/bin/causeway", 'echo "$@"; exit 7')
        (tree / "causeway/lib").mkdir()
        (tree / "data/share/man").mkdir(parents=True)
        (tree / "data/share/man/page").write_text("page", encoding="utf-8")
        done = run(sys.executable, PACKAGING / "wheel/make_wheel.py", tree, "1.2",
                   "manylinux_2_36_x86_64", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Path(done.stdout.strip())

    def test_same_files_same_bytes(self):
        first = self.make().read_bytes()
        shutil.rmtree(self.folder / "tree")
        self.assertEqual(self.make().read_bytes(), first)

    def test_says_what_it_is(self):
        with zipfile.ZipFile(self.make()) as wheel:
            text = wheel.read("causeway-1.2.dist-info/METADATA").decode()
            tags = wheel.read("causeway-1.2.dist-info/WHEEL").decode()
        self.assertIn("Version: 1.2\n", text)
        self.assertIn("glibc 2.36", text)
        self.assertIn("Tag: py3-none-manylinux_2_36_x86_64\n", tags)

    def test_pip_installs_it_and_its_commands_run(self):
        if run(sys.executable, "-m", "pip", "--version").returncode != 0:
            self.skipTest("this Python has no pip")
        place = self.folder / "place"
        done = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                   "--disable-pip-version-check", "--target", place, self.make())
        self.assertEqual(done.returncode, 0, done.stderr)
        environment = {**os.environ, "PYTHONPATH": str(place)}
        done = run(place / "bin/causeway", "serve", "a b", env=environment)
        self.assertEqual((done.stdout, done.returncode), ("serve a b\n", 7), done.stderr)
        done = run(sys.executable, "-m", "causeway", "x", env=environment)
        self.assertEqual((done.stdout, done.returncode), ("x\n", 7))
        done = run(place / "bin/causeway-preload", "printenv", "LD_PRELOAD", env=environment)
        self.assertEqual(done.stdout.strip(), str(place / "causeway/lib/libcauseway-preload.so"))
        done = run(place / "bin/causeway-preload", "no-such-program", env=environment)
        self.assertEqual(done.returncode, 127)
        self.assertIn("error: no-such-program", done.stderr)
        self.assertTrue((place / "share/man/page").is_file())
        spaced = self.folder / "a place"
        shutil.copytree(place, spaced)
        done = run(sys.executable, "-c", "import causeway; causeway.preload()", "sh", "-c",
                   'echo "$LD_PRELOAD" "$LD_LIBRARY_PATH"',
                   env={"PATH": os.environ["PATH"], "PYTHONPATH": str(spaced)})
        self.assertEqual(done.stdout.strip(), f"libcauseway-preload.so {spaced / 'causeway/lib'}",
                         done.stderr)


class Container(unittest.TestCase):
    """No engine runs here: its instructions, what they copy, and the commands' shell are checked."""

    def setUp(self):
        text = (PACKAGING / "Containerfile").read_text(encoding="utf-8")
        text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
        self.instructions = [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]

    def every(self, name):
        return [rest for instruction, rest in self.instructions if instruction == name]

    def test_instructions(self):
        known = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "STOPSIGNAL",
                 "HEALTHCHECK", "ENTRYPOINT", "CMD"}
        self.assertLessEqual({instruction for instruction, _ in self.instructions}, known)
        self.assertEqual(self.every("USER"), ["causeway"])
        for command in self.every("RUN"):
            self.assertEqual(run("sh", "-n", "-c", command).stderr, "")
        for name in ("ENTRYPOINT", "CMD"):
            self.assertTrue(json.loads(self.every(name)[0]))
        check = json.loads(self.every("HEALTHCHECK")[0].partition("CMD ")[2])
        self.assertEqual(run(*check[:1], "-n", *check[1:]).stderr, "")

    def test_stages_and_files_that_it_names_are_there(self):
        stages = {stage.split(" AS ")[1] for stage in self.every("FROM") if " AS " in stage}
        for copied in self.every("COPY"):
            stage = re.match(r"--from=(\w+) ", copied)
            if stage:
                self.assertIn(stage.group(1), stages)
        self.assertTrue(os.access(ROOT / "scripts/package", os.X_OK))

    def test_the_server_takes_its_command(self):
        command = json.loads(self.every("CMD")[0])
        done = run(BINARY, *command)
        self.assertIn("/models", done.stderr)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
