#!/usr/bin/env python3
"""The evaluation of C2CServe in `causeway simulate` and `causeway replay --simulate`: one command a
figure or table of docs/papers/c2cserve.md.

    tools/workloads/c2cserve_tables.py CAUSEWAY DATA [--only NAME …] [--seeds N] [--keep FOLDER]

runs one simulation after the other, says so on the standard error, each with its whole command, and
prints Markdown. Reports are kept in a folder: what has been run once is only read again."""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from c2cserve_runs import CONFIGS, TRACES, Failed, Simulator
from superinfer_tables import percent, table

MODELS = {"3B": "Llama-3.2-3B-Instruct", "8B": "Llama-3.1-8B", "70B": "Llama-3.1-70B",
          "Mixtral-8x7B": "Mixtral-8x7B-v0.1", "Qwen3-30B-A3B": "Qwen3-30B-A3B",
          "1B": "Llama-3.2-1B-Instruct"}
ALIBABA = f"{TRACES}alibaba-genai-2026/lora_request_trace.csv"
SHAREGPT = f"{TRACES}sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl"
# Of replays: name, trace and its options; dense models keep one H100 busy for 20 to 65 % of the time.
ARRIVALS = {
    "Alibaba": ("--trace", ALIBABA, "--skip", "1468800", "--compress", "270"),
    "Azure, chats": ("--trace", f"{TRACES}azure2023/AzureLLMInferenceTrace_conv.csv",
                     "--compress", "4"),
    "Azure, code": ("--trace", f"{TRACES}azure2023/AzureLLMInferenceTrace_code.csv",
                    "--compress", "4"),
    "Mooncake": ("--trace", f"{TRACES}mooncake/conversation_trace.jsonl", "--compress", "6"),
}
WHOLE = ("--slices", "1", "--weights-memory-bytes", "16GB", "--kv-cache-memory-bytes", "8GB")
FOUR = ("--slices", "4", "--weights-memory-bytes", "4GB", "--kv-cache-memory-bytes", "2GB")
RELOAD = ("--switching", "reload")
SLEEP = ("--switching", "sleep")
LOADS_FIRST = ("--step-start", "all-cached")
HYBRID = ("--hybrid-gemm",)
# What a switch costs: ours, and the baselines of paper §9.4.1, each also with HybridGEMM.
SWITCHING = {
    "ours": (),
    "full reload": (*LOADS_FIRST, *RELOAD),
    "full reload, HybridGEMM": (*RELOAD, *HYBRID),
    "sleep and wake": (*LOADS_FIRST, *SLEEP),
    "sleep and wake, HybridGEMM": (*SLEEP, *HYBRID),
}
# Rows of replays: the slices, and what is switched.
BASELINES = [
    ("**whole GPU**, ours", WHOLE, ()),
    ("all of a model first", WHOLE, LOADS_FIRST),
    ("full reload", WHOLE, (*LOADS_FIRST, *RELOAD)),
    ("full reload, HybridGEMM", WHOLE, (*RELOAD, *HYBRID)),
    ("sleep and wake", WHOLE, (*LOADS_FIRST, *SLEEP)),
    ("sleep and wake, HybridGEMM", WHOLE, (*SLEEP, *HYBRID)),
    ("**four slices**, ours (`bandwidth`)", FOUR, ()),
    ("all of a model first, placed as ours", FOUR, LOADS_FIRST),
    ("full reload, placed as ours", FOUR, (*LOADS_FIRST, *RELOAD)),
    ("the same, HybridGEMM", FOUR, (*RELOAD, *HYBRID)),
    ("sleep and wake, placed as ours", FOUR, (*LOADS_FIRST, *SLEEP)),
    ("the same, HybridGEMM", FOUR, (*SLEEP, *HYBRID)),
    ("`shared` (token-level)", FOUR, ("--placement", "shared", *LOADS_FIRST, *RELOAD)),
    ("the same, HybridGEMM", FOUR, ("--placement", "shared", *RELOAD, *HYBRID)),
    ("`locality` (with migration)", FOUR, ("--placement", "locality", *LOADS_FIRST, *RELOAD)),
    ("the same, HybridGEMM", FOUR, ("--placement", "locality", *RELOAD, *HYBRID)),
    ("`shared`, our switches", FOUR, ("--placement", "shared")),
    ("`locality`, our switches", FOUR, ("--placement", "locality")),
    ("`random`, our switches", FOUR, ("--placement", "random")),
]


def config(name, copy=1):
    return f"{CONFIGS}{MODELS[name]}.json" + ("" if copy == 1 else f"#{copy}")


def configs(name, count):
    return [word for copy in range(1, count + 1) for word in ("--model-config", config(name, copy))]


def milliseconds(value):
    """With as many digits as matter."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def seconds(milliseconds_):
    return f"{milliseconds_ / 1000:.3f}" if milliseconds_ < 200 else f"{milliseconds_ / 1000:.2f}"


def first_and_further(report):
    """Of one request: its first token, and each further one."""
    total = report["total"]
    return total["ttft"]["p50_ms"], total["tpot"]["p50_ms"]


class Tables:
    def __init__(self, simulator, seeds):
        self.simulator, self.seeds = simulator, seeds

    def simulate(self, *words):
        return self.simulator.report(["simulate", *words])

    def both(self, model, slices, batched):
        """Seconds that two models take for 20 prompts each, and one of them alone."""
        def takes(count):
            report = self.simulate(
                "--hardware", "gh200", "--slices", slices, "--kv-cache-memory-bytes", "8GiB",
                "--max-resident-bytes", "1500MB", *configs(model, 2), "--at-once", *count,
                "--input-len", "2048", "--output-len", "1", "--max-num-seqs", "1", *batched)
            return report["virtual_seconds"]
        return takes(("20", "20")), takes(("20", "0"))

    def contention(self):
        """Fig. 6: what two models at once lose of twice what one does alone."""
        def lost(model, *batched):
            together, alone = self.both(model, "2", batched)
            return percent(100 * max(0.0, 1 - alone / together))
        rows = [[model, *(lost(model, "--max-num-batched-tokens", chunk)
                          for chunk in ("512", "1024", "2048"))] for model in ("1B", "3B", "8B")]
        return table(["lost, %; tokens a step:", "512", "1,024", "2,048"], rows)

    def one_request(self, hardware, model, *words):
        try:
            first, further = first_and_further(self.simulate(
                "--hardware", hardware, "--kv-cache-memory-bytes", "8GiB", "--model-config",
                config(model), "--at-once", "1", "--input-len", "256", "--output-len", "64", *words))
        except Failed as error:
            return "does not fit" if "at least" in str(error) or "and have" in str(error) else "failed"
        return f"{milliseconds(first)} / {milliseconds(further)}"

    def whole_gpu(self):
        """Fig. 9: first token, from host memory, and each further one."""
        columns = {"": (), "4 GB resident": ("--max-resident-bytes", "4GB")}
        return table(["gh200, ms", *(name or "what fits is resident" for name in columns)],
                     [[model, *(self.one_request("gh200", model, *words)
                                for words in columns.values())]
                      for model in ("3B", "8B", "70B", "Mixtral-8x7B", "Qwen3-30B-A3B")])

    def hardware(self):
        """Table 2."""
        machines = ("gh200", "gb200", "rubin")
        rows = []
        for model in ("8B", "70B", "Qwen3-30B-A3B"):
            cells = []
            for machine in machines:
                small = self.one_request(machine, model, "--max-resident-bytes", "4GB")
                cells.append(f"{self.one_request(machine, model)} ({small})")
            rows.append([model, *cells])
        return table(["first / further, ms (4 GB resident)", *machines], rows)

    def switching(self):
        """Fig. 11 and 13: four models of 8B, HBM for two."""
        def cell(hardware, kv, rate, words):
            report = self.simulate(
                "--hardware", hardware, "--kv-cache-memory-bytes", kv, *configs("8B", 4),
                "--num-prompts", "200", "--request-rate", rate, "--input-len", "512",
                "--output-len", "64", *words)
            ttft, tpot = report["total"]["ttft"], report["total"]["tpot"]
            moved = [f"{report[key] / 1e9:,.0f}" for key in ("link_bytes", "weights_out_bytes")]
            return (" / ".join(f"{ttft[p]:.0f}" for p in ("p50_ms", "p95_ms", "p99_ms")) +
                    f"; {milliseconds(tpot['p95_ms'])}; {', '.join(moved)}")
        return table(["TTFT p50 / p95 / p99; TPOT p95, ms; GB in, out", "gh200", "h100"],
                     [[name, cell("gh200", "58GiB", "2", words), cell("h100", "43GiB", "0.5", words)]
                      for name, words in SWITCHING.items()])

    def replay(self, slices, arrivals, *words):
        """Means over the seeds: TTFT ≤ 1 s and TPOT ≤ 100 ms in %, TTFT's p50 and p99, TPOT's p95 in
        ms, busy in %."""
        reports = [self.simulator.report(
            ["replay", "--simulate", "--hardware", "h100", *slices, *arrivals, "--seconds", "60",
             "--lengths", SHAREGPT, "--output-max", "64", "--zipf", "1", "--seed", str(seed), *words])
            for seed in range(1, self.seeds + 1)]
        mean = lambda value: statistics.fmean(value(report) for report in reports)  # noqa: E731
        return {"ttft": 100 * mean(lambda r: r["all"]["ttft_attained"]),
                "tpot": 100 * mean(lambda r: r["all"]["tpot_attained"]),
                "p50": mean(lambda r: r["all"]["ttft_ms"]["p50"]),
                "p99": mean(lambda r: r["all"]["ttft_ms"]["p99"]),
                "tpot_p95": mean(lambda r: r["all"]["tpot_ms"]["p95"]),
                "busy": 100 * mean(lambda r: r["counters"]["busy_share"]),
                "requests": mean(lambda r: r["all"]["requests"]),
                "switches": mean(lambda r: r["counters"]["switches"])}

    def baselines(self):
        """Fig. 12 to 14(a): 87 models under every baseline."""
        compressions = ("270", "540", "720")
        rows = []
        for name, slices, words in BASELINES:
            cells = []
            for compress in compressions:
                arrivals = ("--trace", ALIBABA, "--skip", "1468800", "--compress", compress)
                got = self.replay(slices, arrivals, *words)
                median = [] if cells else [f"{got['p50']:.1f}"]
                cells += [*median, f"{percent(got['ttft'], 0)} / {seconds(got['p99'])}"]
            rows.append([name, *cells])
        return table(["TTFT ≤ 1 s, % / p99, s; `--compress`", "270: p50, ms", *compressions], rows)

    def catalogues(self):
        """Fig. 12: arrivals of every trace to dense models, mixtures of experts, and both."""
        rows = []
        for arrivals, words in ARRIVALS.items():
            for kind in ("dense", "moe", "mixed"):
                whole = self.replay(WHOLE, words, "--catalogue-kind", kind)
                four = self.replay(FOUR, words, "--catalogue-kind", kind)
                rows.append([arrivals, kind, f"{whole['requests']:.0f}", f"{whole['busy']:.0f}",
                             *(f"{percent(got['ttft'], 0)} / {seconds(got['p50'])} / "
                               f"{seconds(got['p99'])}; {percent(got['tpot'], 0)}"
                               for got in (whole, four))])
        return table(["arrivals", "models", "requests", "busy, %",
                      "whole GPU: TTFT ≤ 1 s, % / p50 / p99, s; TPOT ≤ 100 ms, %", "four slices"],
                     rows)

    def chunks(self):
        """Fig. 14(b): four models of 3B on four slices of a GH200."""
        def cell(rate, chunk):
            total = self.simulate(
                "--hardware", "gh200", "--slices", "4", "--models-per-slice", "0",
                "--kv-cache-memory-bytes", "6GiB", *configs("3B", 4), "--num-prompts", "600",
                "--request-rate", rate, "--input-len", "3000", "--output-len", "100",
                "--slo-ttft-ms", "1000", "--slo-tpot-ms", "50", "--max-num-batched-tokens", "8192",
                "--chunk", chunk)["total"]
            return f"{percent(total['slo_both_percent'], 0)} / {seconds(total['ttft']['p99_ms'])}"
        chunks = ("fixed:8192", "fixed:2048", "fixed:512", "auto")
        return table(["both kept, % / p99 TTFT, s; requests a second", *(f"`{c}`" for c in chunks)],
                     [[rate, *(cell(rate, chunk) for chunk in chunks)] for rate in ("12", "16", "20")])

    def alphas(self):
        """Fig. 14(c): seven models of 3B on seven slices of a GH200, read at home but for what is kept."""
        def cell(kept, rate, alpha):
            report = self.simulate(
                "--hardware", "gh200", "--slices", "7", "--models-per-slice", "0",
                "--kv-cache-memory-bytes", "6GiB", "--max-resident-bytes", kept, *configs("3B", 7),
                "--num-prompts", "2000", "--request-rate", rate, "--input-len", "1500",
                "--output-len", "20", "--slo-ttft-ms", "1000", "--slo-tpot-ms", "100",
                "--hybrid-gemm", "--alpha", alpha)
            total = report["total"]
            tuned = f" ({report['alpha_mean']:.2f})" if alpha == "tuned" else ""
            return (f"{percent(total['slo_both_percent'], 0)} / {total['ttft']['p99_ms'] / 1000:.2f}"
                    + tuned)
        settings = (("1", "2"), ("1", "4"), ("5GB", "8"), ("5GB", "12"))
        return table(["α", *(f"{kept} kept, {rate} a second" for kept, rate in settings)],
                     [[alpha, *(cell(*setting, alpha) for setting in settings)]
                      for alpha in ("0", "0.2", "0.5", "0.7", "1", "tuned")])


NAMES = {"contention": "Fig. 6", "whole_gpu": "Fig. 9", "switching": "Fig. 11, 13",
         "catalogues": "Fig. 12", "baselines": "Fig. 12, 13, 14(a)", "chunks": "Fig. 14(b)", "alphas": "Fig. 14(c)",
         "hardware": "Table 2"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path, metavar="CAUSEWAY")
    parser.add_argument("data", type=Path, help="with configs/ and traces/")
    parser.add_argument("--only", nargs="*", choices=list(NAMES), default=list(NAMES),
                        help="; ".join(f"{name}: {figure}" for name, figure in NAMES.items()))
    parser.add_argument("--seeds", type=int, default=5, help="of replays, whose means are told")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of the reports (default: none are kept)")
    return parser.parse_args()


def main():
    options = arguments()

    def say(line):
        print(line, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as name:
        tables = Tables(Simulator(options.binary, options.data, options.keep or Path(name), say),
                        options.seeds)
        try:
            for which in options.only:
                print(f"### {which} ({NAMES[which]})\n\n{getattr(tables, which)()}\n", flush=True)
        except (Failed, OSError) as error:
            say(f"error: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
