#!/usr/bin/env python3
"""Writes the tables of docs/measurements from what the benchmarks left as JSON.

    tools/report/report.py PAGE…            replaces the sections of these pages
    tools/report/report.py --check PAGE…    exits 1 where a section is not what its file says
    tools/report/report.py --stamp FILE.json --machine M --date D --commit C --command "…"
                                            adds to a benchmark's file where its rows come from

A section of a page names a file beside the page, and may name which of its rows it wants (those with
that text in their name or verdict):

    <!-- report: FILE.json TEXT -->
    what stands here is replaced
    <!-- end of report -->

Rows are those of `bench switch --json` (what, unit, measured, least, most, limit, limit_name, wanted,
met), of `bench kernels` and `bench model` (name, shape, ratio_wanted, spread, runs) or of gpu-check.json.
A ratio says how many times the limit's time was taken, so that 1 is best. What misses is bold.
"""

import argparse
import json
import re
import sys
import textwrap
from pathlib import Path

HEADINGS = ("check", "what", "limit", "wanted", "measured", "ratio", "runs")
SECTION = re.compile(r"(<!-- report: (\S+?\.json)(?: ([^\n]*?))? -->\n).*?(<!-- end of report -->)", re.S)
FACTS = ("machine", "date", "commit", "command")


def number(value):
    return f"{value:,.{0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2}f}"


def mark(text, missed):
    return f"**{text}**, missed" if missed else text


def time_row(row):
    """Of a time or a number of bytes, of which less is better."""
    unit, limit, wanted = row["unit"], row["limit"], row["wanted"]
    return (row["what"], f"{number(limit)} {unit}, {row['limit_name']}" if limit else "",
            f"≤ {number(wanted)} {unit}" if wanted else "",
            mark(f"{number(row['measured'])} {unit}", not row["met"]),
            f"{row['measured'] / limit:.3f}" if limit else "",
            f"{number(row['least'])} – {number(row['most'])}")


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


def table(document, text=""):
    document = document if isinstance(document, dict) else {"rows": document}
    rows = [cells(row) for row in document["rows"]
            if text in " ".join(str(row.get(key, "")) for key in ("check", "what", "name", "verdict"))]
    if not rows:
        raise ValueError(f"no row has the text '{text}'")
    used = [i for i in range(len(HEADINGS)) if any(row[i] for row in rows)]
    if len({row[0] for row in rows}) == 1:
        used = [i for i in used if i > 0]  # all of one check: the page says which
    lines = [[HEADINGS[i] for i in used], ["---"] * len(used)] + [[row[i] for i in used] for row in rows]
    drawn = ["| " + " | ".join(line) + " |" for line in lines]
    drawn[1] = drawn[1].replace(" ", "")
    said = source(document)
    return (textwrap.wrap(said + ":", 100, break_on_hyphens=False) + [""] if said else []) + drawn


def rewritten(page):
    """The page's text with its sections as their files are."""
    def section(match):
        document = json.loads((page.parent / match[2]).read_text(encoding="utf-8"))
        return match[1] + "\n".join(["", *table(document, match[3] or ""), "", match[4]])

    text = page.read_text(encoding="utf-8")
    if text.count("<!-- report:") != len(SECTION.findall(text)):
        raise ValueError(f"{page}: a section has no file or no end")
    return SECTION.sub(section, text)


def stamp(path, options):
    document = json.loads(path.read_text(encoding="utf-8"))
    document = document if isinstance(document, dict) else {"rows": document}
    facts = {key: getattr(options, key) for key in FACTS if getattr(options, key)}
    rest = {key: value for key, value in document.items() if key not in facts}
    path.write_text(json.dumps({**facts, **rest}, indent=1, ensure_ascii=False) + "\n",
                    encoding="utf-8")


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
