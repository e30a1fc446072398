"""The runs of c2cserve_tables.py: commands of `causeway simulate` and `causeway replay --simulate`,
and their reports.

A command's words name files as CONFIGS/… and TRACES/…, below the data's folder; a model that is there
several times as CONFIGS/NAME.json#2: a copy, since names are files' names."""

import hashlib
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

CONFIGS, TRACES = "CONFIGS/", "TRACES/"


class Failed(Exception):
    pass


def key_of(words):
    """Names a report: another command, another name."""
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:20]


class Simulator:
    """Runs what it is asked for, one after the other; keeps the reports in a folder."""

    def __init__(self, binary, data, kept, say=print):
        self.binary, self.data, self.kept, self.say = binary, Path(data), Path(kept), say
        self.kept.mkdir(parents=True, exist_ok=True)

    def report(self, words):
        path = self.kept / f"{key_of(words)}.json"
        if not path.exists():
            began = time.monotonic()
            self.run(words, path)
            self.say(f"{time.monotonic() - began:6.1f} s  causeway {' '.join(words)}")
        return json.loads(path.read_text(encoding="utf-8"))

    def run(self, words, path):
        unfinished = path.with_suffix(".part")
        with tempfile.TemporaryDirectory() as name:
            command = [str(self.binary), *(self.file_of(word, Path(name)) for word in words),
                       "--json", str(unfinished)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
        unfinished.rename(path)

    def file_of(self, word, folder):
        if word.startswith(TRACES):
            return str(self.data / "traces" / word[len(TRACES):])
        if not word.startswith(CONFIGS):
            return word
        name, _, copy = word[len(CONFIGS):].partition("#")
        file = self.data / "configs" / name
        if not copy:
            return str(file)
        other = folder / f"{file.stem}-{copy}.json"
        shutil.copy(file, other)
        return str(other)
