"""From what programs print to rows of the table."""

import json
import re

from part import Row, first_match

FOUND = 9  # compute-sanitizer's exit status when it found something: --error-exitcode


def test_rows(name):
    """Of a test program: its verdict, and its last words about how much it checked."""
    def rows(outcome):
        good = outcome.status == 0
        said = first_match(r"^(?:PASSED|FAILED)[:,]? *(.*)$", outcome.text)
        said = said or first_match(r"^\[  PASSED  \] (.*)$", outcome.text)
        said = said or first_match(r"^(\d+ cases.*|.*worst relative error.*)$", outcome.text)
        said = said or outcome.last_line()
        if not good:
            said = first_match(r"^((?:WRONG|FAILED).*)$", outcome.text, outcome.last_line())
        skipped = int(first_match(r"^\[  SKIPPED \] (\d+) test", outcome.text, "0"))
        if skipped:
            said += f", {skipped} skipped"
        return [Row(name, said[:100], f"{outcome.seconds:.1f} s", "", "all right",
                    "pass" if good else "fail", {"skipped_cases": skipped})]
    return rows


def sanitizer_rows(name, own_only=False):
    """`own_only`: of the races found count those in our kernels; libraries report their own."""
    def rows(outcome):
        summary = first_match(r"^=+ ((?:ERROR|RACECHECK) SUMMARY: .*)$", outcome.text)
        found = int(first_match(r"SUMMARY: (\d+)", outcome.text, "-1"))
        broken = "Internal Sanitizer Error" in outcome.text or outcome.status not in (0, FOUND)
        if own_only and found > 0 and not broken:
            own = len(re.findall(r"^=+ \w+: (?:Race reported|Potential).*causeway.*$", outcome.text,
                                 re.M))
            summary += f", {own} of them in own kernels"
            found = own
        good = found == 0 and not broken and (outcome.status == 0 or own_only)
        row = Row(name, (summary or outcome.last_line() or "no summary")[:100],
                  f"{found}" if found >= 0 else "?", "", "0", "pass" if good else "fail",
                  {"found": found})
        row.values["exit_status"] = outcome.status
        return [row]
    return rows


def unittest_rows(name):
    """Of a run of Python's unittest: failed cases by name, skipped ones with their reasons."""
    def rows(outcome):
        ran = first_match(r"^Ran (\d+ tests? in [\d.]+s)", outcome.text, "no test ran")
        failed = re.findall(r"^(?:FAIL|ERROR): (\S+)", outcome.text, re.M)
        skips = re.findall(r"^(\w+) .*\.\.\. skipped ['\"](.*)['\"]", outcome.text, re.M)
        good = outcome.status == 0 and not failed and ran != "no test ran"
        what = ran if not failed else f"{ran}; failed: {', '.join(sorted(set(failed)))}"
        made = [Row(name, what[:160], f"{len(failed)} failed", "", "0 failed",
                    "pass" if good else "fail", {"failed": failed})]
        return made + [Row(name, f"{case}: {reason}", verdict="skip") for case, reason in skips]
    return rows


FURTHER_LIMITS = ("chain_read", "bulk_read")


def model_rows(name, bars):
    """Of `causeway bench model --json`; bars: first word of a shape's key → × floor at most."""
    def rows(outcome):
        made = []
        for row in json.loads(outcome.files["json"].read_text(encoding="utf-8")):
            times = row["limit"] / row["measured"] if row["measured"] else float("inf")
            bar = bars.get((row["name"], row["shape"].split(",")[0]))
            further = "".join(f"; {limit} {row[limit]:.0f}" for limit in FURTHER_LIMITS
                              if row.get(limit))
            made.append(Row(name, f"{row['name']}, {row['shape']}",
                            f"{times:.2f} × floor ({row['measured']:.0f} {row['unit']})",
                            f"{row['limit']:.0f} {row['unit']} ({row['limit_name']}){further}",
                            f"≤ {bar:.2f} ×" if bar else "",
                            "measured" if bar is None else "pass" if times <= bar else "miss",
                            {**row, "times_floor": times, "bar": bar}))
        return made
    return rows


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def gemm_rows(name):
    """Of gemm_gpu_bench: a decode step's products beside reading their bytes."""
    def rows(outcome):
        lines = json_lines(outcome.text)
        read = next(line["gb_per_s"] for line in lines if line["what"] == "read")
        made = [Row(name, "HBM read", f"{read:.0f} GB/s", values={"gb_per_s": read})]
        made += [Row(name, f"weights by the copy engine, {line['way']}, {line['together']} at once",
                     f"{line['gb_per_s']:.0f} GB/s", f"{read:.0f} GB/s", values=line)
                 for line in lines if line["what"] == "weights"]
        made += [Row(name, "cuBLASLt bf16 8192³", f"{line['tflop_per_s']:.0f} TFLOP/s", values=line)
                 for line in lines if line["what"] == "peak"]
        for line in lines:
            if line["what"] == "chain" and line["way"] in ("chosen", "library"):
                made.append(Row(name, f"decode step's products, M {line['m']}, {line['way']}",
                                f"{line['ratio']:.2f} × floor ({line['us']:.0f} µs)",
                                f"{line['floor_us']:.0f} µs", values=line))
        return made
    return rows


def columns_rows(name, heading, columns, label, optional=None):
    """Of a bench that prints a table for people: the lines of as many words as `columns` under
    `heading`. label: function of the line's {column: word} → (what, measured, limit). `optional`: the
    column that a line leaves empty or in which it has the column's name."""
    def rows(outcome):
        made, inside = [], False
        for line in outcome.text.splitlines():
            if re.match(heading, line):
                inside = True
            elif not line.strip():
                inside = False
            elif inside:
                words = re.split(r"\s{2,}|(?<=\d)\s+", line.strip())
                if optional and len(words) == len(columns) - 1 and optional not in words:
                    words.insert(columns.index(optional), "")
                if len(words) != len(columns):
                    raise ValueError(f"not a row of {len(columns)} columns: {line!r}")
                values = dict(zip(columns, words))
                what, measured, limit = label(values)
                made.append(Row(name, what, measured, limit, values=values))
        if not made:
            raise ValueError(f"no table under {heading!r}")
        return made
    return rows


def together(*parsers):
    return lambda outcome: [row for parser in parsers for row in parser(outcome)]


def attention_rows(name):
    return together(
        columns_rows(name, r"decode +batch", ("model", "batch", "context", "us", "mb", "floor_us",
                                              "ratio", "lengths"),
                     lambda v: (f"decode, {v['model']}, {v['batch']} × {v['context']}, {v['lengths']} lengths",
                                f"{v['ratio']} × floor ({v['us']} µs a layer)",
                                f"{v['floor_us']} µs (HBM read)")),
        columns_rows(name, r"prefill +kernel", ("model", "kernel", "tokens", "us", "tflops", "share"),
                     lambda v: (f"prefill, {v['model']}, {v['tokens']} tokens, {v['kernel']}",
                                f"{v['tflops']} TFLOP/s ({v['us']} µs a layer)",
                                f"{v['share']} of cuBLAS")))


def sampling_rows(name):
    return columns_rows(name, r"what +rows", ("what", "rows", "us", "floor_us"),
                        lambda v: (f"{v['what']}, {v['rows']} rows", f"{v['us']} µs",
                                   f"{v['floor_us']} µs (HBM read)"))


def moe_rows(name):
    def label(v):
        front = ", norm and router with them" if v["front"] else ""
        return (f"{v['model']}'s experts, {v['tokens']} tokens{front}",
                f"{v['ratio']} × floor ({v['us']} µs a layer)", f"{v['floor_us']} µs (HBM read)")
    return columns_rows(name, r"model +tokens +experts",
                        ("model", "tokens", "front", "experts", "us", "floor_us", "ratio", "tflops",
                         "share"), label, optional="front")


def planned_row(name, line, sms_all):
    """The planner's way beside the larger of copy engine and resident product. The bar is that of
    the whole GPU with W in host memory."""
    bar = 1.05 if line["m"] <= 4096 else 1.08
    barred = line["home"] == "host" and line["sms"] == sms_all
    verdict = "measured" if not barred else "pass" if line["ratio"] <= bar else "miss"
    return Row(name, f"{line['sms']} SMs, M {line['m']}, as planned: {line['note']}",
               f"{line['ratio']:.3f} × limit ({line['ms']:.3f} ms)",
               f"{line['limit_ms']:.3f} ms (copy engine or resident)",
               f"≤ {bar:g} ×" if barred else "", verdict,
               {"ms": line["ms"], "limit_ms": line["limit_ms"], "ratio": line["ratio"]})


def home_rows(name):
    """Of `causeway bench gemm --json`: for each slice and M, the best of ours beside the best rival
    that does not keep W resident."""
    ours, rivals = ("symmetric", "ring"), ("in-place", "copy+gemm", "chunked")

    def rows(outcome):
        lines = json.loads(outcome.files["json"].read_text(encoding="utf-8"))
        made = []
        for sms, m in sorted({(line["sms"], line["m"]) for line in lines if line["m"]},
                             key=lambda key: (-key[0], key[1])):
            here = [line for line in lines if line["sms"] == sms]
            times = {(line["way"], line["alpha"]): line["ms"] for line in here if line["m"] == m}
            floor = next(line["ms"] for line in here if line["way"] == "floor")
            best = min((ms, way, alpha) for (way, alpha), ms in times.items() if way in ours)
            rival = min((ms, way) for (way, _), ms in times.items() if way in rivals)
            made.append(Row(name, f"{sms} SMs, M {m}",
                            f"{best[0]:.3f} ms ({best[1]}, α {best[2]:g})",
                            f"{floor:.3f} ms (read of W); {rival[0]:.3f} ms ({rival[1]})",
                            values={"ours_ms": best[0], "floor_ms": floor, "rival_ms": rival[0]}))
        return made + [planned_row(name, line, max(each["sms"] for each in lines))
                       for line in lines if line["way"] == "planned"]
    return rows


def engine_rows(name, ratio_max, idle_max):
    """Of `causeway bench engine --json`: the whole trace beside its steps' floors, and of steady
    decode the share of a step in which the GPU waits for the host."""
    def verdict(value, bar):
        return "pass" if value <= bar else "miss"

    def rows(outcome):
        document = json.loads(outcome.files["json"].read_text(encoding="utf-8"))
        made = []
        runs = sorted(document["runs"], key=lambda run: run["ratio"])
        if runs:
            run = runs[len(runs) // 2]
            made.append(Row(name, f"{run['requests']} requests at once, median of {len(runs)}",
                            f"{run['ratio']:.2f} × floor ({run['total_s']:.2f} s)",
                            f"{run['floor_s']:.2f} s (sum of the steps' floors)",
                            f"≤ {ratio_max:g} ×", verdict(run["ratio"], ratio_max), dict(run)))
        for one in document["decode"]:
            idle = one["not_overlapped_share"]
            made.append(Row(name, f"host time not overlapped, batch {one['batch']}",
                            f"{100 * idle:.2f} % of {one['in_engine_ms']:.3f} ms", "0",
                            f"≤ {100 * idle_max:g} %", verdict(idle, idle_max), dict(one)))
        return made
    return rows


def figure_rows(name):
    """Of `causeway bench switch --json` and the others that print such figures."""
    def rows(outcome):
        document = json.loads(outcome.files["json"].read_text(encoding="utf-8"))
        made = []
        for row in document["rows"]:
            unit = row["unit"]
            limit = f"{row['limit']:.2f} {unit} ({row['limit_name']})" if row["limit"] else ""
            sign = "≥" if row.get("at_least") else "≤"
            wanted = f"{sign} {row['wanted']:.2f} {unit}" if row["wanted"] else ""
            verdict = "measured" if not wanted else "pass" if row["met"] else "miss"
            made.append(Row(name, row["what"], f"{row['measured']:.2f} {unit}", limit, wanted,
                            verdict, dict(row)))
        return made
    return rows


def slo_rows(name):
    """Of `causeway bench slo`: rotary is to keep as many targets as any other policy of its rate, with
    as many tokens less 2 %, and to compute nothing twice."""
    def judge(row, others):
        most = max((other["both_attained"] for other in others), default=0)
        tokens = 0.98 * max((other["output_tokens_per_second"] for other in others), default=0)
        good = (row["both_attained"] >= most and row["output_tokens_per_second"] >= tokens
                and row["recomputed_tokens"] == 0 and row["failed"] == 0)
        return (f"≥ {100 * most:.1f} %, {tokens:.0f} tokens/s, 0 computed again",
                "pass" if good else "miss")

    def rows(outcome):
        document = json.loads(outcome.files["json"].read_text(encoding="utf-8"))
        made = []
        for row in document["rows"]:
            wanted, verdict = "", "measured"
            if row["policy"].startswith("rotary"):
                same = [other for other in document["rows"] if other["rate"] == row["rate"]]
                wanted, verdict = judge(row, [other for other in same if other is not row])
            measured = (f"{100 * row['both_attained']:.1f} %, {row['output_tokens_per_second']:.0f} "
                        f"tokens/s, {row['recomputed_tokens']}")
            made.append(Row(name, f"{row['policy']}, {row['rate']:g} requests a second: keep both targets",
                            measured, "", wanted, verdict, dict(row)))
        return made
    return rows


def workload_rows(name):
    """Of tools/workloads/preload_workloads.py --json."""
    def rows(outcome):
        document = json.loads(outcome.files["json"].read_text(encoding="utf-8"))
        return [Row(name, f"{row['workload']}: {row['what']}, {row['phase']}",
                    f"{1e3 * row['preloaded']:.1f} ms, {row['speed_up']:.2f} × bare",
                    f"{1e3 * row['limit']:.1f} ms (best set of links)", values=row)
                for row in document["rows"]]
    return rows


def transfer_rows(name):
    """Of `causeway bench transfer --json`: what has a bar, and the best sets by number of links."""
    def measured(row):
        figures = row["figures"]
        for key in ("ours GB/s", "kept", "processor %", "MB", "all of the engine MiB", "best GB/s"):
            if key in figures:
                return f"{figures[key]:.2f} {key.split()[-1]}"
        return ""

    def limit(row):
        figures = row["figures"]
        keys = [key for key in ("best GB/s", "native GB/s") if key in figures][:1]
        return ", ".join(f"{figures[key]:.2f} GB/s ({key.split()[0]})" for key in keys)

    def rows(outcome):
        made = []
        for row in json.loads(outcome.files["json"].read_text(encoding="utf-8"))["rows"]:
            bar = row.get("bar")
            if bar is None and row["part"] != "gpus":
                continue
            verdict = "measured" if bar is None else "pass" if bar["met"] else "miss"
            made.append(Row(name, f"{row['part']}: {row['what']}", measured(row), limit(row),
                            bar["wanted"] if bar else "", verdict, row["figures"]))
        return made
    return rows


def topology_rows(name):
    def rows(outcome):
        document = json.loads(outcome.text[outcome.text.index("{"):])
        made = [Row(name, link["link"], f"{link['bytes_per_second'] * 1e-9:.1f} GB/s",
                    f"{link['by_specification'] * 1e-9:.1f} GB/s" if link["by_specification"] else "",
                    values=link) for link in document.get("measured_links", [])]
        return made or [Row(name, "no link was measured", verdict="fail")]
    return rows


def comparison_rows(name):
    """Of transformers_check.py --json; `right` is null where there is no bar."""
    verdicts = {True: "pass", False: "fail", None: "measured"}

    def rows(outcome):
        return [Row(name, row["what"], row["measured"], row["limit"], row["wanted"],
                    verdicts[row["right"]], row)
                for row in json.loads(outcome.files["json"].read_text(encoding="utf-8"))]
    return rows
