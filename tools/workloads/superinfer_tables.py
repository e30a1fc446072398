#!/usr/bin/env python3
"""The evaluation of SuperInfer (MLSys 2026) in `causeway simulate`: tables and charts.

    tools/workloads/superinfer_tables.py CAUSEWAY DATA [--quick] [--only NAME …] [--keep FOLDER]

runs one simulation after the other, says so on the standard error, and prints Markdown. Reports are
kept in a folder: what has been run once is only read again. --svg PREFIX also draws charts."""

import argparse
import sys
import tempfile
from pathlib import Path

from superinfer_runs import LINKS, POLICIES, SETTINGS, Failed, Run, Simulator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plot"))
import svg  # noqa: E402  (tools/plot)

ROTARY, PAPER = "rotary", "rotary, paper's lags"
COMPARED = (ROTARY, PAPER, "fcfs")
SUSTAINED = 90.0  # percent of requests that keep both targets
# Of the ablations: where more comes than fits.
ABLATED, ABLATED_RATE = "qwen", 7


def ablations():
    """Name of a table: [(row, options, link)]."""
    share = "--rotation-frames-share"
    return {
        "link of KV": [(name, (), link or ()) for name, link in LINKS.items()],
        "B_xfer, share of the frames": [(f"{value:g}", (share, f"{value:g}"), ())
                                        for value in (0.002, 0.01, 0.05, 0.17)],
        "B_xfer 0.17 by layers, one way at a time": [("0.17", (share, "0.17"), (5.1, 5.1))],
        "alpha": [(f"{value:g}", ("--rotary-alpha", f"{value:g}"), ()) for value in (0.3, 1, 3, 10)],
        "beta_F": [(f"{value:g}", ("--slo-ttft-slack", f"{value:g}"), ())
                   for value in (0, 0.25, 0.5, 0.75, 0.9)],
        "beta_B": [(f"{value:g}", ("--slo-tpot-slack", f"{value:g}"), ()) for value in (-5, 0, 1)],
    }


def crossing(points, least=SUSTAINED):
    """The rate up to which `least` percent are kept: between two measured rates on the straight line.
    points: [(rate, percent)]. (rate, whether it ends there): not if it is kept at all of them."""
    points = sorted(points)
    if points[0][1] < least:
        return 0.0, True
    for (rate, percent), (further, its) in zip(points, points[1:]):
        if its < least:
            return rate + (further - rate) * (percent - least) / (percent - its), True
    return points[-1][0], False


def rate_text(crossed):
    rate, ended = crossed
    return f"{rate:.1f}" if ended else f"≥ {rate:g}"


def ratio_text(ours, theirs):
    if theirs[0] == 0 or not theirs[1]:
        return "–"
    return f"{'' if ours[1] else '≥ '}{ours[0] / theirs[0]:.2f}"


def percent(value):
    """Without digits that nobody reads; never 100 for less."""
    if value >= 99.95:
        return "100"
    return f"{value:.1f}" if value > 99 else f"{value:.0f}"


def table(headings, rows):
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def attained(total):
    """TTFT / TBT by a request's mean / both / gaps."""
    return " / ".join(percent(total[f"slo_{key}"]) for key in
                      ("ttft_percent", "tpot_percent", "both_percent", "tbt_percent_of_gaps"))


def seconds(milliseconds):
    return f"{milliseconds / 1000:.2f}"


class Tables:
    def __init__(self, simulator, quick):
        self.simulator, self.quick = simulator, quick

    def setting(self, name):
        return SETTINGS[name].shortened() if self.quick else SETTINGS[name]

    def report(self, name, rate, policy, options=(), link=()):
        return self.simulator.report(Run(self.setting(name), rate, policy, options, link))

    def total(self, *which):
        return self.report(*which)["total"]

    def overload(self):
        """The table of docs/design/simulate.md."""
        rates = self.setting("overload").rates
        rows = []
        for policy in POLICIES:
            if policy in ("ranked", "past-future"):
                continue
            cells = []
            for rate in rates:
                total = self.total("overload", rate, policy)
                shares = " / ".join(percent(total[f"slo_{key}"]) for key in
                                    ("both_percent", "ttft_and_pauses_percent",
                                     "tbt_percent_of_gaps"))
                cells.append(f"{shares}; {total['output_tokens_per_second']:,.0f}")
            rows.append([policy, *cells])
        return table(["arrivals a second", *(f"{rate:g}" for rate in rates)], rows)

    def attainment(self, name="qwen"):
        rates = self.setting(name).rates
        return table(["TTFT / TBT / both / gaps", *(f"{rate:g}/s" for rate in rates)],
                     [[policy, *(attained(self.total(name, rate, policy)) for rate in rates)]
                      for policy in POLICIES if policy != "rotary, unanswered displace"])

    def latency(self, name="qwen"):
        rows = []
        for rate in self.setting(name).rates:
            for policy in COMPARED:
                total = self.total(name, rate, policy)
                ttft, tbt = total["ttft"], total["tbt"]
                rows.append([f"{rate:g}", policy, f"{total['output_tokens_per_second']:,.0f}",
                             f"{seconds(ttft['p50_ms'])}; {seconds(ttft['p99_ms'])}",
                             f"{tbt['p50_ms']:.0f}; {tbt['p99_ms']:,.0f}"])
        return table(["rate", "policy", "tokens/s", "TTFT p50; p99, s", "TBT p50; p99, ms"], rows)

    def paper_rates(self):
        rows = []
        for name in ("qwen-chats", "mixtral-chats", "llama-chats"):
            for policy in COMPARED:
                setting = self.setting(name)
                cells = [f"{rate:g}: {attained(self.total(name, rate, policy))}"
                         for rate in setting.rates]
                rows.append([setting.name, policy, "; ".join(cells)])
        return table(["setting", "policy", "rate: TTFT / TBT / both / gaps"], rows)

    def sustained(self):
        rows = []
        for name in ("overload", "qwen"):
            setting = self.setting(name)
            least = {policy: crossing([(rate, self.total(name, rate, policy)["slo_both_percent"])
                                       for rate in setting.rates]) for policy in COMPARED}
            rows.append([f"{setting.name}, {setting.seconds:g} s",
                         *(rate_text(least[policy]) for policy in COMPARED),
                         ratio_text(least[ROTARY], least["fcfs"]),
                         ratio_text(least[PAPER], least["fcfs"])])
        return table(["setting", *COMPARED, "rotary ÷ fcfs", "paper's lags ÷ fcfs"], rows)

    def ablation(self):
        parts = []
        for title, rows in ablations().items():
            lines = []
            for row, options, link in rows:
                cells = []
                for policy in (ROTARY, PAPER):
                    report = self.report(ABLATED, ABLATED_RATE, policy, options, link)
                    total = report["total"]
                    cells += [attained(total), f"{total['tbt']['p99_ms']:,.0f}",
                              f"{report['rotation']['bytes_in'] / 1e12:.2f}"]
                lines.append([row, *cells])
            parts.append(table([title, "rotary", "TBT p99, ms", "TB in",
                                "paper's lags", "TBT p99, ms", "TB in"], lines))
        return "\n\n".join(parts)

    def charts(self, name="qwen"):
        """(name, SVG)."""
        for field, title, unit in (("slo_ttft_percent", "requests that keep the target of TTFT", "%"),
                                   ("slo_both_percent", "requests that keep both targets", "%"),
                                   ("output_tokens_per_second", "output", "tokens/s")):
            lines = {policy: [(rate, self.total(name, rate, policy)[field])
                              for rate in self.setting(name).rates] for policy in COMPARED}
            yield field.removesuffix("_percent").replace("_", "-"), svg.lines(
                f"{title}: {self.setting(name).name}", "requests a second", unit, lines)


NAMES = ("overload", "sustained", "attainment", "latency", "ablation", "paper_rates")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path, metavar="CAUSEWAY")
    parser.add_argument("data", type=Path, help="with configs/ and traces/")
    parser.add_argument("--only", nargs="*", choices=NAMES, default=list(NAMES))
    parser.add_argument("--quick", action="store_true", help="a quarter of the time, a third of the rates")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of the reports (default: none are kept)")
    parser.add_argument("--svg", metavar="PREFIX", help="of charts over the rate")
    return parser.parse_args()


def main():
    options = arguments()

    def say(line):
        print(line, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as name:
        tables = Tables(Simulator(options.binary, options.data, options.keep or Path(name), say),
                        options.quick)
        try:
            for which in options.only:
                print(f"### {which}\n\n{getattr(tables, which)()}\n", flush=True)
            if options.svg:
                for chart, text in tables.charts():
                    Path(f"{options.svg}-{chart}.svg").write_text(text, encoding="utf-8")
        except (Failed, OSError) as error:
            say(f"error: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
