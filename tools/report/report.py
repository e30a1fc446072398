#!/usr/bin/env python3
"""Writes the tables of docs/measurements from what the benchmarks left as JSON.

    tools/report/report.py PAGE…            replaces the sections of these pages
    tools/report/report.py --check PAGE…    exits 1 where a section is not what its file says
    tools/report/report.py --stamp FILE.json --machine M --date D --commit C --command "…"
                                            adds to a benchmark's file where its rows come from

A section of a page names a file beside the page, and may name which of its rows it wants (those with
that text in their name or verdict; `demanded`: those with a bar), or a table of grids.py and what that
takes:

    <!-- report: FILE.json TEXT -->
    <!-- report: FILE.json by GRID WORDS -->
    what stands here is replaced
    <!-- end of report -->

Rows are those of `bench switch --json` (what, unit, measured, least, most, limit, limit_name, wanted,
met), of `bench kernels` and `bench model` (name, shape, ratio_wanted, spread, runs) or of gpu-check.json.
A ratio says how many times the limit's time was taken, so that 1 is best. What misses is bold. A file
of lines (.jsonl) has a row a line; where its rows come from is its first line.
"""

import argparse
import json
import re
import sys
import textwrap
from pathlib import Path

from figures import mark, number
from grids import GRIDS

HEADINGS = ("check", "what", "limit", "wanted", "measured", "ratio", "runs")
SECTION = re.compile(r"(<!-- report: (\S+?\.jsonl?)(?: ([^\n]*?))? -->\n).*?(<!-- end of report -->)", re.S)
FACTS = ("machine", "date", "commit", "command")


def time_row(row):
    """Of a time or a number of bytes, of which less is better."""
    unit, limit, wanted = row["unit"], row["limit"], row["wanted"]
    return (row["what"], f"{number(limit)} {unit}, {row['limit_name']}" if limit else "",
            f"≤ {number(wanted)} {unit}" if wanted else "",
            mark(f"{number(row['measured'])} {unit}", not row["met"]),
            f"{row['measured'] / limit:.3f}" if limit else "",
            f"{number(row['least'])}–{number(row['most'])}")


def rate_row(row):
    """Of a rate, of which more is better."""
    wanted, times = row["ratio_wanted"], row["limit"] / row["measured"]
    return (f"{row['name']}, {row['shape']}",
            f"{number(row['limit'])} {row['unit']}, {row['limit_name']}",
            f"≤ {1 / wanted:.2f} ×" if wanted else "",
            mark(f"{number(row['measured'])} {row['unit']}", times * wanted > 1),
            f"{times:.3f}", f"{row['runs']}, spread {100 * row['spread']:.0f} %")


def check_row(row):
    missed = row["verdict"] in ("miss", "fail")
    return (row["what"], row["limit"], row["wanted"],
            mark(row["measured"] or row["verdict"], missed), "", "")


def cells(row):
    line = (check_row if "verdict" in row else rate_row if "ratio_wanted" in row else time_row)(row)
    return (row.get("check", ""), *(cell.replace("|", "\\|") for cell in line))


def source(document):
    """One line: machine, date, commit, command; what the file does not say is left out."""
    machine = document.get("machine", "")
    if isinstance(machine, dict):
        machine = f"{len(machine['gpus'])} × {machine['gpus'][0].split(',')[0]}, {machine['cpus']} CPUs"
    commit = document.get("commit", "")
    said = [machine, document.get("date", document.get("begun", ""))[:10],
            f"commit {commit[:7]}" if commit else "",
            f"`{document['command']}`" if "command" in document else ""]
    return ", ".join(part for part in said if part)


def is_wanted(row, text):
    if text == "demanded":
        return bool(row.get("ratio_wanted") or row.get("wanted"))
    return text in " ".join(str(row.get(key, "")) for key in ("check", "what", "name", "verdict"))


def read(path):
    """A benchmark's file as {"rows": […], where they come from}."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        first, *rest = [json.loads(line) for line in text.splitlines()]
        return {**first, "rows": rest} if "commit" in first else {"rows": [first, *rest]}
    document = json.loads(text)
    return document if isinstance(document, dict) else {"rows": document}


def table(document, text=""):
    """The lines of a table, headings first, as lists of cells."""
    if text.startswith("by "):
        name, _, words = text[3:].partition(" ")
        lines = GRIDS[name](document, words)
        if len(lines) < 2 or len({len(line) for line in lines}) > 1:
            raise ValueError(f"{name} has no row, or rows of several lengths")
        return lines
    rows = [cells(row) for row in document["rows"] if is_wanted(row, text)]
    if not rows:
        raise ValueError(f"no row has the text '{text}'")
    used = [i for i in range(len(HEADINGS)) if any(row[i] for row in rows)]
    if len({row[0] for row in rows}) == 1:
        used = [i for i in used if i > 0]  # all of one check: the page says which
    return [[HEADINGS[i] for i in used], *([row[i] for i in used] for row in rows)]


def drawn(lines):
    head, *rows = ["|" + "|".join(line) + "|" for line in lines]
    return [head, "|---" * len(lines[0]) + "|", *rows]


def rewritten(page):
    """The page's text with its sections as their files are. Where its rows come from a section says,
    unless that is what the one before it says."""
    said = [""]

    def section(match):
        try:
            document = read(page.parent / match[2])
            lines = drawn(table(document, match[3] or ""))
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"{page}: the section of {match[2]} {match[3] or ''}: {error!r}") from error
        before, said[0] = said[0], source(document)
        if said[0] and said[0] != before:
            lines = [*textwrap.wrap(said[0] + ":", 100, break_on_hyphens=False), "", *lines]
        return match[1] + "\n".join(["", *lines, "", match[4]])

    text = page.read_text(encoding="utf-8")
    if text.count("<!-- report:") != len(SECTION.findall(text)):
        raise ValueError(f"{page}: a section has no file or no end")
    return SECTION.sub(section, text)


def stamp(path, options):
    """Puts the facts before what the file has, whose lines stay as the benchmark wrote them."""
    facts = {key: getattr(options, key) for key in FACTS if getattr(options, key)}
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        first, rest = text.split("\n", 1)
        known = json.loads(first) if "commit" in json.loads(first) else {}
        text = json.dumps({**known, **facts}, ensure_ascii=False) + "\n" + (rest if known else text)
    else:
        rest = {key: value for key, value in read(path).items() if key not in facts}
        indent = re.search(r"^( +)", text, re.M)
        text = json.dumps({**facts, **rest}, indent=len(indent[1]) if indent else 1,
                          ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--stamp", type=Path, metavar="FILE.json")
    for fact in FACTS:
        parser.add_argument("--" + fact)
    options = parser.parse_args()
    if options.stamp:
        stamp(options.stamp, options)
    stale = [page for page in options.pages if rewritten(page) != page.read_text(encoding="utf-8")]
    for page in stale:
        if options.check:
            print(f"{page}: not what its files say; run tools/report/report.py {page}")
        else:
            page.write_text(rewritten(page), encoding="utf-8")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
