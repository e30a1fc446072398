#!/usr/bin/env python3
"""Checks the house rules on every file that git tracks or would track.

    tools/tidy/tidy.py [ROOT]

Prints one line a finding, `path:line: rule: message`, and exits 1 if there is any.
"""

import subprocess
import sys
from pathlib import Path, PurePosixPath

from rules import RULES
from source import Source

CODE_SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
TEXT_SUFFIXES = CODE_SUFFIXES | {".py", ".sh", ".md", ".txt", ".json", ".yaml", ".cmake", ".patch",
                                 ""}


class Tree:
    """What the rules look at. files: {path: bytes}."""

    def __init__(self, files):
        self.paths = sorted(files)
        self.sizes = {path: len(content) for path, content in files.items()}
        self.texts = {path: content.decode("utf-8", "replace") for path, content in files.items()
                      if path.suffix in TEXT_SUFFIXES}
        self.sources = [Source(path, self.texts[path]) for path in self.paths
                        if path.suffix in CODE_SUFFIXES]


def read_tree(root):
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True).stdout.decode()
    files = {}
    for name in filter(None, listing.split("\0")):
        path = root / name
        if path.is_file() and not path.is_symlink():
            files[PurePosixPath(name)] = path.read_bytes()
    return Tree(files)


def check(tree):
    return sorted((finding for rule in RULES for finding in rule(tree)),
                  key=lambda f: (str(f.path), f.line))


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    tree = read_tree(root)
    findings = check(tree)
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.rule}: {finding.message}")
    print(f"tidy: {len(tree.paths)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
