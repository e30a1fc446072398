"""The summary table and the JSON file."""

import json

HEADINGS = ("check", "what", "measured", "limit", "wanted", "verdict")


def table(rows):
    cells = [HEADINGS] + [(r.check, r.what, r.measured, r.limit, r.wanted, r.verdict) for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
             for line in cells]
    return "\n".join([lines[0], "-" * sum(widths, 2 * (len(widths) - 1)), *lines[1:]])


def tally(rows):
    counts = {}
    for row in rows:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    return ", ".join(f"{counts[name]} {name}" for name in
                     ("pass", "fail", "miss", "measured", "skip") if name in counts)


def document(rows, facts):
    return {**facts, "summary": tally(rows),
            "rows": [{"check": r.check, "what": r.what, "measured": r.measured, "limit": r.limit,
                      "wanted": r.wanted, "verdict": r.verdict, "values": r.values} for r in rows]}


def write_json(path, rows, facts):
    path.write_text(json.dumps(document(rows, facts), indent=1, ensure_ascii=False) + "\n",
                    encoding="utf-8")
