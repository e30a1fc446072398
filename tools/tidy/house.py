#!/usr/bin/env python3
"""What the house was and is: the table of docs/measurements/house.md, of two commits.

    tools/tidy/house.py BEFORE [NOW]      NOW: HEAD, where none is given

Lines, functions and assertions are those of rooms.py, words those of `wc -w` in all *.md.
"""

import io
import statistics
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

from rooms import NOT_PRODUCT, rooms

ROOMS = ("kv", "schedule", "engine", "transfer", "fleet", "preload")
LONG = 70  # lines


def tree_of(commit, root):
    from tidy import Tree
    archive = subprocess.run(["git", "-C", str(root), "archive", commit], check=True,
                             capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        return Tree({PurePosixPath(file.name): files.extractfile(file).read()
                     for file in files if file.isfile()})


def product(tree):
    return [source for source in tree.sources
            if source.module is not None and not NOT_PRODUCT.search(str(source.path))]


def words(tree, *folders):
    return sum(len(text.split()) for path, text in tree.texts.items() if path.suffix == ".md"
               and (not folders or str(path.parent) in folders))


def column(tree, both):
    """{row: what it is in this tree}; `both`: the files whose lines are compared."""
    sources = product(tree)
    functions = [function for source in sources for function in source.functions()]
    lengths = [function.lines for function in functions]
    long = [function for function in functions if function.lines > LONG]
    found = rooms(tree)
    return {
        "lines": f"{sum(len(source.lines) for source in sources):,}",
        f"of the {len(both)} files that are in both":
            f"{sum(len(source.lines) for source in sources if source.path in both):,}",
        "functions; lines: median, longest":
            f"{len(lengths):,}; {statistics.median(lengths):.0f}, {max(lengths)}",
        "longest that is no GPU kernel":
            str(max(function.lines for function in functions if not function.kernel)),
        f"functions above {LONG} lines; of these GPU kernels":
            f"{len(long)}; {sum(function.kernel for function in long)}",
        "words of measurements and papers; of all pages":
            f"{words(tree, 'docs/measurements', 'docs/papers'):,}; {words(tree):,}",
        f"assertions a function: {', '.join(ROOMS)}":
            ", ".join(f"{found[name].share:.2f}" if name in found else "–" for name in ROOMS)}


def table(before, now):
    both = {source.path for source in product(before)} & {source.path for source in product(now)}
    then, today = column(before, both), column(now, both)
    return ["|what|before|now|", "|---|---|---|", *(f"|{row}|{then[row]}|{today[row]}|" for row in then)]


def main():
    before, now = [*sys.argv[1:], "HEAD"][:2]
    root = Path(__file__).resolve().parents[2]
    print("\n".join(table(tree_of(before, root), tree_of(now, root))))


if __name__ == "__main__":
    main()
