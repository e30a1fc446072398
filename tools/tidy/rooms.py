#!/usr/bin/env python3
"""What the code of each room looks like: its lines, its functions, its assertions.

    tools/tidy/rooms.py [ROOT]      one row a room, as a Markdown table

Tests, benchmarks, fuzz targets and testing/ do not count. An assertion is a CAUSEWAY_CHECK, a
CAUSEWAY_DCHECK, a static_assert, or a condition of check_integrity() (in its own file,
*integrity.cc). Functions of one statement (at most three lines) have nothing to assert: they count
in the lengths, and not in the share of assertions.
"""

import re
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

STATEMENT_LINES = 3
_ASSERTION = re.compile(r"\b(?:CAUSEWAY_D?CHECK|static_assert)\s*\(")
_INTEGRITY = re.compile(r"(?:\breturn|[=:])\s*(?:corrupt|broken)(?:_\w+)?\s*\(")
NOT_PRODUCT = re.compile(r"/testing/|/bench/|_(?:test|bench|fuzz)\.\w+$|_bench\.h$|_bench_run\.\w+$")


@dataclass
class Room:
    lines: int = 0
    lengths: list = field(default_factory=list)
    assertions: int = 0

    @property
    def functions(self):
        """Those of more than one statement."""
        return sum(length > STATEMENT_LINES for length in self.lengths)

    @property
    def share(self):
        return self.assertions / self.functions if self.functions else 0.0


def assertions(source):
    found = len(_ASSERTION.findall(source.code))
    if source.path.name.endswith("integrity.cc"):
        found += len(_INTEGRITY.findall(source.code))
    return found


def rooms(tree):
    """{name: Room} of what lies in src/."""
    found = {}
    for source in tree.sources:
        if source.module is None or NOT_PRODUCT.search(str(source.path)):
            continue
        room = found.setdefault(source.module, Room())
        room.lines += len(source.lines)
        room.lengths += [function.lines for function in source.functions()]
        room.assertions += assertions(source)
    return found


def table(found):
    rows = ["| room | lines | functions | median | longest | assertions | a function |",
            "|---|---|---|---|---|---|---|"]
    for name, room in sorted(found.items()):
        if not room.lengths:
            continue
        rows.append(f"| {name} | {room.lines:,} | {len(room.lengths):,} | "
                    f"{statistics.median(room.lengths):.0f} | {max(room.lengths)} | "
                    f"{room.assertions} | {room.share:.2f} |")
    return "\n".join(rows)


def main():
    from tidy import read_tree
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    print(table(rooms(read_tree(root))))


if __name__ == "__main__":
    main()
