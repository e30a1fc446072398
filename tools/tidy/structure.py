#!/usr/bin/env python3
"""The rooms of src/ as ARCHITECTURE.md draws them, from what their files include.

    tools/tidy/structure.py [ROOT]      replaces the picture in ROOT/ARCHITECTURE.md

A line a room, the highest layer first. It names the rooms that the room's files include, without
those that one of these uses in turn: tests, benchmarks and testing/ do not count. The rule
`architecture` of tidy compares the page with it.
"""

import re
import sys
from pathlib import Path

TEST = re.compile(r"/testing/|_(?:test|bench|fuzz)\.\w+$")

BEGIN = "<!-- rooms: written by tools/tidy/structure.py -->\n"
END = "<!-- end of rooms -->"


def uses(tree, layers):
    """{room: the other rooms that its files include}, of all rooms with a file."""
    found = {}
    for source in tree.sources:
        room = source.module
        if room not in layers or TEST.search(str(source.path)):
            continue
        others = {target.split("/")[0] for _, target in source.includes()}
        found.setdefault(room, set()).update(others & layers.keys() - {room})
    return found


def direct(used):
    """`used` without what is there by way of another room."""
    def reached(room):
        others = used.get(room, set())
        return others.union(*map(reached, others))
    return {room: {other for other in others
                   if not any(other in reached(between) for between in others - {other})}
            for room, others in used.items()}


def picture(tree, layers):
    used = direct(uses(tree, layers))
    lines, above = [], None
    for room in sorted(used, key=lambda name: (-layers[name], name)):
        layer = layers[room]
        others = sorted(used[room], key=lambda name: (-layers[name], name))
        number = f"{layer:2}" if layer != above else "  "
        lines.append(f"{number}  {room:<9} {'─▶ ' + ' '.join(others) if others else ''}".rstrip())
        above = layer
    return "\n".join(["```", *lines, "```"]) + "\n"


def drawn(text):
    """The picture that a page has; None: it has none."""
    if text.count(BEGIN) != 1 or END not in text.split(BEGIN)[1]:
        return None
    return text.split(BEGIN)[1].split(END)[0]


def main():
    from rules import LAYERS
    from tidy import read_tree
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    page = root / "ARCHITECTURE.md"
    text = page.read_text(encoding="utf-8")
    if drawn(text) is None:
        sys.exit(f"{page} has no line {BEGIN.strip()} before {END}")
    before, rest = text.split(BEGIN)
    made = BEGIN + picture(read_tree(root), LAYERS)
    page.write_text(before + made + rest[rest.index(END):], encoding="utf-8")


if __name__ == "__main__":
    main()
