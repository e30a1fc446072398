"""Tables whose columns are what a benchmark varied: the rows of a few, the tokens of a prompt.

Each function takes a benchmark's document ({"rows": […], …}) and the words behind the table's name in
the section, and returns the table's lines, headings first, as lists of cells.
"""

import re

from figures import mark, number, span


def unique(values):
    return list(dict.fromkeys(values))


def pivot(corner, rows, columns, cell):
    """One line a row, one column a column; `cell` gives None where nothing was measured."""
    return [[corner, *map(str, columns)],
            *([str(row), *(cell(row, column) or "" for column in columns)] for row in rows)]


def chosen(words):
    """"host 16,56 M 256" → {"host": ["16", "56"], "M": ["256"]}"""
    parts = words.split()
    return {key: values.split(",") for key, values in zip(parts[::2], parts[1::2], strict=True)}


# bench kernels, bench server


def products(document, _):
    """gemm_few_rows and gemm_many_rows: "qkv 4 x 3072 x 2048" is m × n × k."""
    found = {}
    for row in document["rows"]:
        if row["name"].startswith("gemm_"):
            weight, rows, _, outputs, _, inputs = row["shape"].split()
            found[f"{weight} {outputs} × {inputs}", int(rows)] = row
    columns = unique(rows for _, rows in found)

    def limit(column):
        rows = [row for (_, rows), row in found.items() if rows == column]
        return f"{span([row['limit'] for row in rows])} {rows[0]['unit']}"

    def cell(weight, column):
        row = found.get((weight, column))
        return row and f"{number(row['measured'])} ({row['ratio']:.2f})"

    lines = pivot("product", unique(weight for weight, _ in found), columns, cell)
    return [lines[0], ["limit", *map(limit, columns)], *lines[1:]]


def cpu_attention(document, _):
    """attention_decode and attention_prefill: shapes are "8 x context 4096, 32/8 heads of 64"."""
    rows = [row for row in document["rows"] if row["name"].startswith("attention_")]
    heads = unique(row["shape"].split(", ", 1)[1] for row in rows)
    lines = [["attention, " + "; ".join(heads), "limit", "measured", "share"]]
    for row in rows:
        shape, of = row["shape"].split(", ", 1)
        what = f"{row['name'].removeprefix('attention_')}, {shape.replace(' x ', ' × ')}"
        lines.append([what if len(heads) == 1 else f"{what}, {of}",
                      f"{number(row['limit'])} {row['unit']}, {row['limit_name']}",
                      f"{number(row['measured'])} {row['unit']}", f"{row['ratio']:.2f}"])
    return lines


def first_bytes(document, _):
    """bench server, one object a run."""
    runs = document["rows"]
    tell = {"time to first byte, p50": ("first_byte_us_p50", 1, "µs"),
            "time to first byte, p99": ("first_byte_us_p99", 1, "µs"),
            "memory of all streams": ("streams_memory_bytes", 1e6, "MB"),
            "streams complete": ("streams_complete", 1, ""),
            "streams and requests failed": ("streams_failed", 1, "")}
    lines = [["what", f"measured, {len(runs)} runs"]]
    for what, (key, unit, name) in tell.items():
        values = [run[key] / unit + (run["first_byte_failed"] if key == "streams_failed" else 0)
                  for run in runs]
        text = span(values) if name else "; ".join(f"{value:,.0f}" for value in unique(values))
        lines.append([what, f"{text} {name}".strip()])
    return lines


# gemm_gpu_bench, hybrid_gemm_bench


def chain(document, _):
    """The products of a decode step, by rows of the batch."""
    rows = {(row["m"], row["way"]): row for row in document["rows"] if row.get("what") == "chain"}
    lines = [["M", "floor, ms", "chosen", "library"]]
    for m in unique(m for m, _ in rows):
        floor = rows[m, "chosen"]["floor_us"]
        lines.append([str(m), number(floor / 1e3),
                      *(f"{number(rows[m, way]['us'] / 1e3)} ({rows[m, way]['us'] / floor:.3f})"
                        for way in ("chosen", "library"))])
    return lines


def shapes(document, words):
    """Single products: the faster of our two ways, and the best of the library's."""
    only = chosen(words).get("M")
    rows = [row for row in document["rows"] if row.get("what") == "shape"]
    columns = [m for m in unique(row["m"] for row in rows) if not only or str(m) in only]
    lines = [["weight N × K", "floor", "way", *map(str, columns)]]
    for weight in unique(row["weight"] for row in rows):
        of = {row["m"]: row for row in rows if row["weight"] == weight}
        one = next(iter(of.values()))
        ours = {m: [us for us in (of[m]["rows_us"], of[m]["split_us"]) if us > 0] for m in columns}
        lines.append([f"{weight} {one['n']} × {one['k']}", f"{one['floor_us']:.1f}", "ours",
                      *(f"{min(ours[m]):.1f}" if ours[m] else "" for m in columns)])
        lines.append(["", "", "library", *(f"{of[m]['library_best_us']:.1f}" for m in columns)])
    return lines


def shares(document, words):
    """Products whose weight lies elsewhere, by home and SMs, for the M that the section names."""
    asked = chosen(words)
    only = {int(m) for m in asked.pop("M")}
    ways = ("resident", "staged", "in-place", "symmetric", "ring")
    lines = [["home, SMs", "M", "floor", *ways]]
    for home, sms in ((home, int(sms)) for home, several in asked.items() for sms in several):
        here = [row for row in document["rows"] if (row["home"], row["sms"]) == (home, sms)]
        floor = min(row["ms"] for row in here if row["way"] == "floor")
        for m in unique(row["m"] for row in here if row["m"] in only):
            best = {way: min((row["ms"] for row in here if row["m"] == m and way == (
                "staged" if row["way"] in ("copy+gemm", "chunked") else row["way"])
                and _is_whole(row)), default=None) for way in ways}
            lines.append([f"{home}, {sms}", str(m), f"{floor:.3f}",
                          *(f"{best[way]:.3f}" if best[way] else "" for way in ways)])
    return lines


def home_gemm(document, words):
    """gpu-check's products whose weight is in host memory: "132 SMs" names the slice."""
    rows = [row for row in document["rows"]
            if row["check"] == "bench gemm host" and row["what"].startswith(words + ", M ")
            and "floor_ms" in row["values"]]
    return [["M", "floor, ms", "best rival", "ours"],
            *([row["what"].split(" M ")[1], f"{row['values']['floor_ms']:.3f}",
               f"{row['values']['rival_ms']:.3f} ({_last_way(row['limit'])})",
               f"{row['values']['ours_ms']:.3f} ({_last_way(row['measured'])})"] for row in rows)]


def _last_way(text):
    """"2.620 ms (read of W); 2.484 ms (chunked)" → chunked; "2.6 ms (ring, α 0)" → ring"""
    return text.rsplit("(", 1)[1].rstrip(")").split(",")[0]


def _is_whole(row):
    """Not one of the mixtures of two ways: `alpha` is what part of the weight goes the symmetric way."""
    return row["alpha"] == {"symmetric": 1.0}.get(row["way"], 0.0)


# bench transfer, preload_workloads.py


def transfer_bars(document, _):
    """Each bar once, with the row that is nearest to it or beyond, and all that missed it."""
    lines = [["bar", "rows", "worst in", "worst out"]]
    bound = [row for row in document["rows"] if "bar" in row]
    for part, wanted in unique((row["part"], row["bar"]["wanted"]) for row in bound):
        rows = [row for row in bound if (row["part"], row["bar"]["wanted"]) == (part, wanted)]
        ways = [[row for row in rows if _way(row)[0] == way] for way in ("in", "out")]
        ways = ways if any(ways) else [rows, []]
        lines.append([f"{part}: {wanted}", str(len(rows)), *(_worst(part, wanted, way) for way in ways)])
    return lines


def _way(row):
    """"in 1 MiB" and "in, native on link 1" → in, and the rest."""
    way, _, rest = row["what"].replace(",", "", 1).partition(" ")
    return (way, rest) if way in ("in", "out") else ("", row["what"])


def _worst(part, wanted, rows):
    if not rows:
        return ""
    found = sorted(((_figure(part, wanted, row["figures"]), _way(row)[1], not row["bar"]["met"])
                    for row in rows), reverse="≤" in wanted)
    worst = [found[0], *(one for one in found[1:] if one[2])]
    return "; ".join(mark(number(figure), missed) + (f" ({what})" if what else "")
                     for figure, what, missed in worst)


def _figure(part, wanted, figures):
    if part == "sizes":
        excess = figures["ours µs"] - figures["native µs"]
        return excess if "µs" in wanted else 100 * excess / figures["native µs"]
    keys = {"of best set": "of best", "background": "kept", "memory": "all of the engine MiB"}
    return figures.get(keys.get(part, ""), next(iter(figures.values())))


def transfer_sizes(document, words):
    """GB/s of ours and of the native copy; the section names the sizes: 32MiB,1GiB"""
    found = {row["what"]: row["figures"] for row in document["rows"] if row["part"] == "sizes"}
    lines = [["GB/s", "native in", "ours in", "×", "native out", "ours out", "×"]]
    for size in (re.sub(r"(\d)([KMG])", r"\1 \2", size) for size in words.split(",")):
        line = [size]
        for way in ("in", "out"):
            figures = found[f"{way} {size}"]
            native, ours = figures["native GB/s"], figures["ours GB/s"]
            line += [f"{native:.1f}", f"{ours:.1f}", f"{ours / native:.2f}"]
        lines.append(line)
    return lines


def transfer_links(document, _):
    """The best set of one, two, … links."""
    found = {(_way(row)[0], _way(row)[1].split()[0]): row["figures"]["best GB/s"]
             for row in document["rows"] if row["part"] == "gpus"}
    return pivot("links, the best ones, GB/s", ("in", "out"), unique(links for _, links in found),
                 lambda way, links: f"{found[way, links]:.1f}")


def transfer_beside(document, words):
    """Scattered pieces (`segments`) or two processes (`processes`), by what differs."""
    part, key = {"segments": ("segments", "× batch"), "processes": ("processes", "sum GB/s")}[words]
    found = {_way(row): row["figures"][key] for row in document["rows"] if row["part"] == part}
    return pivot(f"{part}, {key}", ("in", "out"), unique(what for _, what in found),
                 lambda way, what: f"{found[way, what]:.2f}")


def workloads(document, words):
    """PyTorch's programs: × bare (of the limit), by length where there are several."""
    rows = [row for row in document[words]["rows"]]
    phases = unique(row["phase"] for row in rows)
    found = {(row["what"], row["phase"]): row for row in rows}
    lines = [[rows[0]["workload"], "GB", *phases]]
    for model in unique(row["what"].split(",")[0] for row in rows):
        whats = unique(what for what, _ in found if what.split(",")[0] == model)
        lengths = ", ".join(what.split(",")[1].split()[0] for what in whats if "," in what)
        lines.append([f"{model}: {lengths}" if lengths else model,
                      ", ".join(f"{found[what, phases[0]]['bytes'] / 1e9:.2f}" for what in whats),
                      *(_times_bare([found[what, phase] for what in whats]) for phase in phases)])
    return lines


def _times_bare(rows):
    return (", ".join(f"{row['speed_up']:.2f}" for row in rows) + " × ("
            + ", ".join(f"{row['of_limit']:.2f}" for row in rows) + ")")


# What gpu-check keeps of the kernels' benchmarks and of the engine's


def _values(document, check, **wanted):
    rows = [row["values"] for row in document["rows"] if row["check"] == check]
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def attention(document, _):
    """Decode of 1,024 tokens: µs a layer (× its floor)."""
    found = {(row["model"], row["batch"]): f"{row['us']} ({row['ratio']})"
             for row in _values(document, "bench attention", context="1024")}
    return pivot("heads of", unique(model for model, _ in found), unique(batch for _, batch in found),
                 lambda model, batch: found.get((model, batch)))


def attention_lengths(document, model):
    rows = [row for row in _values(document, "bench attention", model=model)
            if row.get("context", "1024") != "1024"]
    return [[model, "floor", "measured", "ratio"],
            *([f"{row['batch']} × {row['context']}" + (", mixed" if row["lengths"] == "mixed" else ""),
               f"{row['floor_us']} µs", f"{row['us']} µs", row["ratio"]] for row in rows)]


def attention_prefill(document, kernel):
    return [[f"prefill, {kernel}", "tokens", "measured", "of cuBLAS 8192³"],
            *([row["model"], row["tokens"], f"{row['us']} µs, {row['tflops']} TFLOP/s", row["share"]]
              for row in _values(document, "bench attention", kernel=kernel))]


def experts(document, _):
    """µs a layer (× its floor); *front*: norm and router too."""
    found = {(row["model"] + (", front" if row["front"] else ""), int(row["tokens"])):
             f"{row['us']} ({row['ratio']})" for row in _values(document, "bench moe") if "tokens" in row}
    return pivot("tokens", unique(model for model, _ in found), sorted({tokens for _, tokens in found}),
                 lambda model, tokens: found.get((model, tokens)))


def sampling(document, _):
    rows = _values(document, "bench sampling")
    found = {(row["rows"], row["what"]): row["us"] for row in rows}
    floors = {row["rows"]: row["floor_us"] for row in rows}
    whats = unique(row["what"] for row in rows)
    return pivot("rows", floors, ["floor", *whats],
                 lambda count, what: floors[count] if what == "floor" else found.get((count, what)))


def engine(document, _):
    """A trace through the engine: all of it, then its steps by how many sequences they had."""
    (run,) = [row for row in _values(document, "bench engine") if "bands" in row]
    total = [["all", str(run["steps"]), run["floor_s"], run["total_s"]],
             ["of it decode", str(run["decode_steps"]), run["decode_floor_s"], run["decode_on_gpu_s"]]]
    bands = [[f"of ≤ {band['sequences_max']} sequences" if band["sequences_max"] else "with prompts",
              str(band["steps"]), band["floor_s"], band["on_gpu_s"]] for band in run["bands"]]
    return [["steps", "number", "floor, s", "measured, s", "ratio"],
            *([what, steps, f"{floor:.3f}", f"{took:.3f}", f"{took / floor:.3f}"]
              for what, steps, floor, took in total + bands)]


def host_time(document, _):
    return [["batch", "floor, ms", "alone", "on GPU", "in engine", "host time"],
            *([str(row["batch"]), *(f"{row[key]:.3f}" for key in
                                    ("floor_ms", "alone_ms", "on_gpu_ms", "in_engine_ms")),
               f"{100 * row['not_overlapped_share']:.2f} %"]
              for row in _values(document, "bench engine") if "in_engine_ms" in row)]


# bench switch


STARTS = ("first token, from home", "first token, from home, beside a neighbour", "its longest gap")


def starts(document, _):
    """When a step of a model on its way starts: figures by way of waiting."""
    rows = {(row["figure"], row["start"] or "just in time"): row for row in document["rows"]}
    return pivot("", STARTS, unique(start for _, start in rows),
                 lambda figure, start: f"{number(rows[figure, start]['measured'])} "
                                       f"{rows[figure, start]['unit']}")


GRIDS = {"products": products, "cpu-attention": cpu_attention, "first-bytes": first_bytes,
         "chain": chain, "shapes": shapes, "shares": shares, "home-gemm": home_gemm,
         "transfer-bars": transfer_bars, "transfer-sizes": transfer_sizes, "transfer-links": transfer_links,
         "transfer-beside": transfer_beside, "workloads": workloads,
         "attention": attention, "attention-lengths": attention_lengths,
         "attention-prefill": attention_prefill, "experts": experts, "sampling": sampling,
         "engine": engine, "host-time": host_time, "starts": starts}
