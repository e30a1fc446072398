#!/usr/bin/env python3
"""Draws the charts of a benchmark's JSON file as SVG files.

    tools/plot/plot.py bench-transfer.json docs/measurements/transfer-h200

writes docs/measurements/transfer-h200-sizes-in.svg and so on. With --beside, replays of one list are
drawn in one chart, each under its file's name."""

import argparse
import json
import sys
from pathlib import Path

import replay
import residency
import rotation
import streaming
import transfer


CHARTS = replay.CHARTS | residency.CHARTS | rotation.CHARTS | streaming.CHARTS


def charts(documents):
    """(name, SVG) of everything that the documents have."""
    joined = {"rows": []}
    for document in documents:
        if "bench" in document:
            yield from CHARTS.get(document["bench"], lambda _: ())(document)
        else:
            joined["rows"] += document["rows"]
    yield from transfer.charts(joined)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, nargs="+",
                        help="of `causeway bench transfer`, `switch`, `catalogue`, `slo` or `stream`, or of `causeway"
                             " replay`; the rows of several transfers are joined")
    parser.add_argument("prefix", help="of the files to write")
    parser.add_argument("--beside", action="store_true", help="the files are replays of one list")
    options = parser.parse_args()
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in options.json]
    named = {file.stem: document for file, document in zip(options.json, documents)}
    made = 0
    for name, text in replay.beside(named) if options.beside else charts(documents):
        path = Path(f"{options.prefix}-{name}.svg")
        path.write_text(text, encoding="utf-8")
        print(path)
        made += 1
    if made == 0:
        print("error: nothing to draw in these files", file=sys.stderr)
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
