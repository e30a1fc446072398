#!/usr/bin/env python3
"""The man page and the completions of bash, zsh and fish beside --help, option by option, in the
shells themselves. CAUSEWAY_BINARY is the program."""

import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

BINARY = os.environ["CAUSEWAY_BINARY"]
COLUMN = 30  # where --help writes descriptions
SHELL_SECONDS = 60


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=SHELL_SECONDS,
                          check=False, **options)


def program(*arguments):
    done = run(BINARY, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def one_line(text):
    return " ".join(text.split())


def halves(line, following):
    """What stands left and right in a line of --help. A name too long for its column stands alone, and
    its description on the next line, where other descriptions go on, too."""
    goes_on = following.startswith(" " * COLUMN)
    gap = "  " if goes_on else " "
    return (line[:COLUMN], line[COLUMN:]) if line[:COLUMN].endswith(gap) else (line, "")


class Help:
    """What `causeway … --help` says: options and commands with their descriptions."""

    def __init__(self, words):
        self.words = words
        self.text = f"causeway {' '.join(words)}".rstrip()
        self.options, self.commands, self.positionals = {}, {}, {}
        section, entry = None, None
        lines = program(*words, "--help").splitlines() + [""]
        for line, following in zip(lines, lines[1:] + [""]):
            if entry and line.startswith(" " * COLUMN):
                entry[1] += " " + line
                continue
            if entry:
                self._add(section, *entry)
            entry = None
            if re.match(r"\S.*:$", line):
                section = line[:-1]
            elif section and line.startswith("  "):
                entry = list(halves(line, following))

    def _add(self, section, left, text):
        names, text = left.split()[0], one_line(text)
        if section == "Subcommands":
            self.commands[names] = text
        elif section == "Positionals":
            self.positionals[names] = text
        else:
            for name in names.split(","):
                self.options[re.sub(r"\{.*\}", "", name)] = text


def options_of_man(section):
    """{option: description} of a section of the shown page. A name that is shorter than the indent of
    descriptions has its own beside it."""
    told = {}
    for entry in re.split(r"\n {7}(?=\S)", section):
        left, _, right = entry.partition("\n")
        if right.strip() and left.startswith("-"):
            names = re.match(r"(-[\w-]+)(?:, (-[\w-]+))*", left).group(0).split(", ")
        elif left.startswith("-"):
            name, _, right = left.partition(" ")
            names = [name]
        else:
            continue
        told.update((name, one_line(right)) for name in names)
    return told


def every_help():
    todo, done = [[]], []
    while todo:
        done.append(Help(todo.pop(0)))
        todo += [done[-1].words + [command] for command in done[-1].commands]
    return done


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.helps = every_help()
        cls.inherited = {"--log-level": cls.helps[0].options["--log-level"]}
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.scripts = {}
        for shell in ("bash", "zsh", "fish"):
            cls.scripts[shell] = Path(cls.folder.name) / shell
            cls.scripts[shell].write_text(program("completion", shell), encoding="utf-8")
        cls.environment = {"PATH": os.environ["PATH"], "HOME": cls.folder.name, "TERM": "dumb",
                           "LANG": "C.UTF-8"}

    def shell(self, name, text):
        if shutil.which(name) is None:
            self.skipTest(f"{name} is not installed")
        options = {"bash": ["--norc"], "zsh": ["-f"], "fish": []}[name]
        done = run(name, *options, "-c", text, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def wanted(self, page):
        return {**page.options, **self.inherited}

    def test_help_is_understood(self):
        self.assertGreater(len(self.helps), 25)
        serve = next(page for page in self.helps if page.words == ["serve"])
        self.assertEqual(serve.options["--port"], "port to listen on; 0: any free one")
        self.assertEqual(serve.options["--device"], "device on which models run: cpu or cuda")
        self.assertIn("model", serve.positionals)
        self.assertTrue(all(text for text in serve.options.values()), serve.options)

    def bash(self, *words):
        line = " ".join(f"'{word}'" for word in ("causeway", *words))
        return self.shell("bash", f"source '{self.scripts['bash']}'; COMP_WORDS=({line}); "
                                  f"COMP_CWORD={len(words)}; _causeway; "
                                  'printf "%s\\n" "${COMPREPLY[@]}"').split()

    def test_bash_offers_what_help_lists(self):
        for page in self.helps:
            with self.subTest(page.text):
                self.assertEqual(sorted(self.bash(*page.words, "-")), sorted(self.wanted(page)))
                if page.commands:
                    self.assertEqual(self.bash(*page.words, ""), list(page.commands))

    def test_bash_offers_values(self):
        self.assertEqual(self.bash("serve", "--device", ""), ["cpu", "cuda"])
        self.assertEqual(self.bash("serve", "--device", "=", "cu"), ["cuda"])
        self.assertEqual(self.bash("serve", "--device", "="), ["cpu", "cuda"])
        self.assertEqual(self.bash("serve", "--model", ""), [])
        self.assertEqual(self.bash("make-model", "--dtype", "b"), ["bf16"])
        self.assertEqual(self.bash("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.bash("bench", "--log-level", "debug", "sw"), ["switch"])

    def test_fish_offers_what_help_lists(self):
        lines = [" ".join(["causeway", *page.words, "-"]) for page in self.helps]
        asked = "".join(f"echo '== {line}'; complete -C '{line}';" for line in lines)
        parts = self.shell("fish", f"source '{self.scripts['fish']}'; {asked}").split("== ")[1:]
        for page, part in zip(self.helps, parts, strict=True):
            with self.subTest(page.text):
                offered = dict(line.partition("\t")[::2] for line in part.splitlines()[1:])
                self.assertEqual(offered, self.wanted(page))

    def test_fish_offers_commands_and_values(self):
        source = f"source '{self.scripts['fish']}'; complete -C "
        offered = self.shell("fish", source + "'causeway bench '").splitlines()
        bench = next(page for page in self.helps if page.words == ["bench"])
        self.assertEqual(dict(line.split("\t") for line in offered), bench.commands)
        values = self.shell("fish", source + "'causeway serve --device '")
        self.assertEqual([line.split("\t")[0] for line in values.splitlines()], ["cpu", "cuda"])

    def zsh_arguments(self, page):
        """What the function passes to zsh's own _arguments: {option: description}."""
        words = ["causeway", *page.words, ""]
        text = self.shell("zsh", "compdef() { : }; _arguments() { print -rl -- \"$@\" }; "
                                 f"source '{self.scripts['zsh']}'; "
                                 f"words=({' '.join(words[:-1])} ''); CURRENT={len(words)}; _causeway")
        entries = re.findall(r"^\*?(-[\w-]+)=?\[((?:\\.|[^\]\\])*)\]", text, re.M)
        return {name: re.sub(r"\\(.)", r"\1", description) for name, description in entries}

    def test_zsh_describes_what_help_lists(self):
        for page in self.helps:
            with self.subTest(page.text):
                self.assertEqual(self.zsh_arguments(page), self.wanted(page))

    def zsh_types(self, keys):
        """What an interactive zsh makes of keys and a tab."""
        if shutil.which("zsh") is None:
            self.skipTest("zsh is not installed")
        process, terminal = pty.fork()
        if process == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], self.environment)
        seen = b""
        os.write(terminal, b"PS1=; autoload -U compinit; compinit -u -D; setopt no_beep; "
                           b"source '%s'; print rea''dy\n" % str(self.scripts["zsh"]).encode())
        sent = False
        ends = time.monotonic() + SHELL_SECONDS
        while time.monotonic() < ends:
            if not select.select([terminal], [], [], 2 if sent else SHELL_SECONDS)[0]:
                break
            seen += os.read(terminal, 65536)
            if not sent and b"ready\r\n" in seen:
                sent, seen = True, b""
                os.write(terminal, keys.encode() + b"\t")
        os.write(terminal, b"\x03exit\n")
        os.close(terminal)
        os.waitpid(process, 0)
        return seen.decode("utf-8", "replace")

    def test_zsh_itself_completes(self):
        self.assertIn("causeway serve --device=", self.zsh_types("causeway serve --dev"))
        self.assertIn("causeway serve --device cuda", self.zsh_types("causeway serve --device cu"))
        self.assertIn("causeway bench switch", self.zsh_types("causeway bench sw"))

    def test_man_page_lists_what_help_lists(self):
        page = Path(self.folder.name) / "causeway.1"
        page.write_text(program("man"), encoding="utf-8")
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is not installed")
        lint = run("mandoc", "-T", "lint", "-W", "error", str(page))
        self.assertEqual((lint.returncode, lint.stdout), (0, ""))
        shown = run("mandoc", "-T", "utf8", "-O", "width=990", str(page)).stdout
        shown = re.sub(".\b", "", shown)
        options = shown[shown.index("\nOPTIONS\n"):shown.index("\nCOMMANDS\n")]
        commands = shown[shown.index("\nCOMMANDS\n"):shown.index("\nENVIRONMENT\n")]
        commands = re.split(r"\n {1,3}(causeway [\w -]+)\n", commands)
        sections = {"causeway": options, **dict(zip(commands[1::2], commands[2::2]))}
        self.assertEqual(set(sections), {help_.text for help_ in self.helps})
        for help_ in self.helps:
            with self.subTest(help_.text):
                told = options_of_man(sections[help_.text])
                self.assertEqual(told, help_.options)

    def test_man_page_is_the_same_each_time(self):
        self.assertEqual(program("man"), program("man"))

    def test_an_unknown_shell_is_refused(self):
        for arguments in (["completion"], ["completion", "tcsh"]):
            done = run(BINARY, *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("bash", done.stderr)


if __name__ == "__main__":
    unittest.main()
