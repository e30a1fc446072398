#!/usr/bin/env python3
"""Installs the packages of a folder in a fresh Debian 12 (debootstrap) and serves with them on the CPU.

clean_install.py FOLDER      needs root, Debian's mirror, and scripts/package's deb and wheel in FOLDER

The fresh system has no library of ours: what a package forgets to bring or to ask for is missed.
"""

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build/packages"
CLEAN = PACKAGES / "clean"
COMMAND_SECONDS = 300
SERVE_SECONDS = 60
SIZES = ["--layers", "2", "--hidden", "64", "--heads", "4", "--kv-heads", "2", "--intermediate", "128",
         "--vocab", "512", "--dtype", "f32", "--seed", "1"]
SMALL = ["--kv-frame-bytes", "16kb", "--kv-cache-memory-bytes", "16mb", "--pool-memory-bytes", "256mb",
         "--port", "0"]


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=COMMAND_SECONDS, check=False, **options)


def mirror():
    """Where this machine's apt has Debian 12 from."""
    told = run("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)/$(COMPONENT)").stdout
    sites = [line.split()[0] for line in told.splitlines() if line.endswith(" bookworm/main")]
    if not sites:
        sys.exit("apt knows no mirror of Debian 12; see /etc/apt/sources.list")
    return sites[0]


def make_clean_system():
    shutil.rmtree(CLEAN, ignore_errors=True)
    done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(CLEAN), mirror()],
                          stdout=subprocess.DEVNULL, timeout=900, check=False)
    if done.returncode != 0:
        sys.exit(f"debootstrap failed; see {CLEAN}/debootstrap/debootstrap.log")
    shutil.copy("/etc/resolv.conf", CLEAN / "etc/resolv.conf")
    for package in PACKAGES.glob("causeway*.*"):
        shutil.copy(package, CLEAN / "opt")


def inside(*command, user=None, environment=None):
    """A command line that runs `command` in the clean system, with its /proc; mounts end with it."""
    change = ["chroot", *([f"--userspec={user}"] if user else []), str(CLEAN), "env", "-i",
              "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
              "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *(environment or []), *command]
    words = " ".join(shlex.quote(str(word)) for word in change)
    mount = f"mount -t proc proc {shlex.quote(str(CLEAN / 'proc'))}"
    return ["unshare", "--mount", "sh", "-c", f"{mount} && exec {words}"]


class Clean(unittest.TestCase):
    def must(self, *command, **options):
        done = run(*inside(*command, **options))
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-4000:])
        return done.stdout

    def nothing_is_missing(self, *files):
        for file in files:
            needed = self.must("ldd", file)
            self.assertIn("libc.so.6", needed)
            self.assertNotIn("not found", needed)

    def serves(self, command, **options):
        """Starts a server, has one completion of it, and stops it; returns what the health check of
        the Containerfile said meanwhile."""
        with subprocess.Popen(inside(*command, *SMALL, **options), stderr=subprocess.PIPE,
                              text=True) as server:
            try:
                lines, port = [], None
                for line in server.stderr:
                    lines.append(line)
                    found = re.search(r"serving .* at http://[^:]+:(\d+)/v1", line)
                    if found:
                        port = int(found.group(1))
                        break
                self.assertIsNotNone(port, "".join(lines))
                answer = self.completion(port)
                healthy = run(*inside(*health_check(port))).returncode
                server.send_signal(signal.SIGTERM)
                self.assertEqual(server.wait(SERVE_SECONDS), 0, server.stderr.read())
            finally:
                server.kill()
        self.assertEqual(answer["usage"]["completion_tokens"], 8, answer)
        self.assertEqual(healthy, 0)

    def completion(self, port):
        ends = time.monotonic() + SERVE_SECONDS
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SERVE_SECONDS)
            body = json.dumps({"model": "tiny", "prompt": "Hello", "max_tokens": 8,
                               "ignore_eos": True})
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = json.loads(response.read())
            connection.close()
            if response.status == 200:
                return answer
            # While the model is loaded.
            self.assertEqual(response.status, 503, answer)
            self.assertLess(time.monotonic(), ends, answer)
            time.sleep(0.2)


def health_check(port):
    text = (ROOT / "packaging/Containerfile").read_text(encoding="utf-8")
    command = json.loads(re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", text, re.M).group(1))
    return [word.replace("/8000 ", f"/{port} ") for word in command]


class Packages(Clean):
    """In this order: the wheel first, while the system has none of the .deb's libraries."""

    def test_1_wheel_in_a_fresh_virtual_environment(self):
        self.must("apt-get", "install", "-y", "-q", "--no-install-recommends", "python3-venv")
        self.must("python3", "-m", "venv", "/opt/venv")
        wheel = next(CLEAN.glob("opt/causeway-*.whl")).name
        self.must("/opt/venv/bin/pip", "install", "-q", "--no-index", f"/opt/{wheel}")
        place = self.must("/opt/venv/bin/python", "-c",
                          "import causeway; print(causeway.PROGRAM)").strip()
        self.nothing_is_missing(place, str(Path(place).parents[1] / "lib/libcauseway-preload.so"))
        self.assertRegex(self.must("/opt/venv/bin/causeway", "--version"), r"^causeway \d+\.\d+\.\d+ ")
        self.must("/opt/venv/bin/causeway-preload", "/bin/true")
        self.must("/opt/venv/bin/causeway", "make-model", "/opt/wheel-models/tiny", *SIZES)
        self.serves(["/opt/venv/bin/causeway", "serve", "--models-dir", "/opt/wheel-models"])

    def test_2_deb_installs_and_its_service_serves(self):
        deb = next(CLEAN.glob("opt/causeway_*.deb")).name
        told = self.must("apt-get", "install", "-y", "-q", "--no-install-recommends", f"/opt/{deb}")
        self.assertIn("systemctl enable --now causeway", told)
        self.nothing_is_missing("/usr/bin/causeway", "/usr/lib/causeway/libcauseway-preload.so")
        self.must("causeway-preload", "/bin/true")
        self.assertEqual(self.must("stat", "-c", "%U:%G %a", "/etc/causeway/causeway.yaml",
                                   "/var/lib/causeway/models").split("\n"),
                         ["root:causeway 640", "causeway:causeway 755", ""])
        self.must("causeway", "make-model", "/var/lib/causeway/models/tiny", *SIZES,
                  user="causeway:causeway")
        unit = (CLEAN / "lib/systemd/system/causeway.service").read_text(encoding="utf-8")
        settings = dict(re.findall(r"^(ExecStart|Environment|User|Group)=(.*)$", unit, re.M))
        # As the unit says, but for systemd's fences, which nothing here can put up.
        self.serves(shlex.split(settings["ExecStart"]), environment=[settings["Environment"]],
                    user=f"{settings['User']}:{settings['Group']}")

    def test_3_pages_lie_where_shells_and_man_look(self):
        for file in ("man/man1/causeway.1.gz", "bash-completion/completions/causeway",
                     "zsh/vendor-completions/_causeway", "fish/vendor_completions.d/causeway.fish"):
            self.assertGreater((CLEAN / "usr/share" / file).stat().st_size, 1000, file)
        offered = self.must("bash", "-c", "source /usr/share/bash-completion/completions/causeway; "
                            "COMP_WORDS=(causeway serve --dev); COMP_CWORD=2; _causeway; "
                            'echo "${COMPREPLY[@]}"')
        self.assertEqual(offered, "--device\n")

    def test_4_installed_again_it_keeps_the_configuration(self):
        file = CLEAN / "etc/causeway/causeway.yaml"
        file.write_text(file.read_text(encoding="utf-8") + "max-queue: 7\n", encoding="utf-8")
        deb = next(CLEAN.glob("opt/causeway_*.deb")).name
        self.must("dpkg", "-i", f"/opt/{deb}")
        self.assertIn("max-queue: 7", file.read_text(encoding="utf-8"))

    def test_5_purged_it_leaves_the_models_alone(self):
        self.must("dpkg", "--purge", "causeway")
        self.assertFalse((CLEAN / "etc/causeway").exists())
        self.assertFalse((CLEAN / "usr/bin/causeway").exists())
        self.assertTrue((CLEAN / "var/lib/causeway/models/tiny/config.json").exists())


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("a fresh system is made and entered by root: run this as root")
    make_clean_system()
    unittest.main(verbosity=2)
