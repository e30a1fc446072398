"""Charts from the JSON of `causeway bench transfer`."""

import re

import svg

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def bytes_of(text):
    """Of a size in a row's name: "in 64 KiB" → 65536."""
    value, unit = re.search(r"([\d.]+) (B|KiB|MiB|GiB)\b", text).groups()
    return float(value) * UNITS[unit]


def size_text(count):
    for unit in ("GiB", "MiB", "KiB"):
        if count >= UNITS[unit]:
            return f"{count / UNITS[unit]:g} {unit}"
    return f"{count:g} B"


def of_part(document, part):
    return [row for row in document["rows"] if row["part"] == part]


def by_size(rows, way, names):
    """{name: [(bytes, figure)]} of one direction."""
    rows = [row for row in rows if row["what"].startswith(way + " ")]
    return {name: [(bytes_of(row["what"]), row["figures"][name]) for row in rows]
            for name in names}


def sizes(document):
    rows = of_part(document, "sizes")
    for way, title in (("in", "host → GPU"), ("out", "GPU → host")):
        series = by_size(rows, way, ("native GB/s", "ours GB/s"))
        if not rows or not series["ours GB/s"]:
            continue
        best = {row["what"]: row for row in of_part(document, "of best set")}
        limits = [(bytes_of(what), row["figures"]["best GB/s"]) for what, row in best.items()
                  if what.startswith(way + " ")]
        if limits:
            series["best set GB/s"] = limits
        yield (f"sizes-{way}", svg.lines(f"{title}, by size of the transfer", "size", "GB/s", series,
                                         log_x=True, x_text=size_text))


def break_even(document):
    rows = of_part(document, "break-even")
    for way in ("in", "out"):
        series = by_size(rows, way, ("native GB/s", "ours GB/s"))
        if series["ours GB/s"]:
            yield (f"break-even-{way}",
                   svg.lines(f"many links from the first byte, {way}", "size", "GB/s", series,
                             log_x=True, x_text=size_text))


def gpus(document):
    series = {}
    for row in of_part(document, "gpus"):
        way, count = re.match(r"(in|out) (\d+)", row["what"]).groups()
        for figure, name in (("best GB/s", "best set"), ("first ones GB/s", "first GPUs")):
            series.setdefault(f"{way}, {name}", []).append((int(count), row["figures"][figure]))
    if series:
        yield "gpus", svg.lines("by number of links", "links", "GB/s", series)


def chunks(document):
    for way in ("in", "out"):
        series = {}
        for row in of_part(document, "chunks"):
            depth = row["what"].rsplit(" ", 1)[1]
            series.setdefault(f"depth {depth}", []).append(
                (bytes_of(row["what"]), row["figures"][f"{way} GB/s"]))
        if series:
            yield f"chunks-{way}", svg.lines(f"chunk size × depth at 512 MiB, {way}", "chunk", "GB/s",
                                             series, log_x=True, x_text=size_text)


def grouped(document, part, title, names, y_name="GB/s"):
    rows = of_part(document, part)
    if rows:
        groups = {row["what"]: {name.removesuffix(" GB/s"): row["figures"][name] for name in names}
                  for row in rows}
        yield part, svg.bars(title, y_name, groups)


def charts(document):
    """(name, SVG) of everything that the document has."""
    yield from sizes(document)
    yield from break_even(document)
    yield from gpus(document)
    yield from chunks(document)
    yield from grouped(document, "segments", "scattered segments",
                       ("loop GB/s", "batch GB/s", "ours GB/s"))
    yield from grouped(document, "background", "beside native copies on one link",
                       ("native alone GB/s", "native GB/s", "ours alone GB/s", "ours GB/s"))
    yield from grouped(document, "static", "dynamic and static splits over two links",
                       ("dynamic GB/s", "1:1 GB/s", "1:2 GB/s", "2:1 GB/s"))
    yield from grouped(document, "processes", "two processes at once",
                       ("alone GB/s", "first GB/s", "second GB/s"))
    yield from grouped(document, "cpu", "processor time while copying", ("processor %",), "%")
