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

ROTARY, PAPER = "rotary", "paper's lags"
PAPER_ONE = "paper's lags, α 1"
COMPARED = (ROTARY, PAPER, "fcfs")
SUSTAINED = 90.0  # percent of requests that keep both targets
# Of the ablations: where more comes than fits.
ABLATED, ABLATED_RATE = "qwen-third", 6


def ablations():
    """(what varies, policy, [(row, options, link)])."""
    def values(option, *some):
        return [(f"{value:g}", (option, f"{value:g}"), ()) for value in some]

    links = [(name, (), link or ()) for name, link in LINKS.items()]
    share = "--rotation-frames-share"
    return [
        ("", ROTARY, links),
        ("", PAPER, [links[0], links[2]]),
        ("B_xfer", ROTARY, values(share, 0.002)),
        ("α", ROTARY, values("--rotary-alpha", 1)),
        ("α", PAPER, values("--rotary-alpha", 1, 10)),
        ("β_F", ROTARY, values("--slo-ttft-slack", 0, 0.25)),
        ("β_B", ROTARY, values("--slo-tpot-slack", -5)),
    ]


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


def percent(value, exact_from=99):
    """Without digits that do not matter; never 100 for less."""
    if value >= 99.95:
        return "100"
    return f"{value:.1f}" if value > exact_from else f"{value:.0f}"


def of_gaps(total):
    return percent(total["slo_tbt_percent_of_gaps"], 90)


def table(headings, rows):
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def attained(total):
    """TTFT, TBT by a request's mean, both; gaps."""
    requests = [percent(total[f"slo_{key}_percent"]) for key in ("ttft", "tpot", "both")]
    return "/".join([*requests, of_gaps(total)])


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
            if policy in (PAPER_ONE, "ranked", "past-future"):
                continue
            cells = []
            for rate in rates:
                total = self.total("overload", rate, policy)
                both, pauses = (percent(total[f"slo_{key}_percent"])
                                for key in ("both", "ttft_and_pauses"))
                shares = f"{both} / {pauses} / {of_gaps(total)}"
                cells.append(f"{shares}; {total['output_tokens_per_second']:,.0f}")
            rows.append([policy, *cells])
        return table(["arrivals a second", *(f"{rate:g}" for rate in rates)], rows)

    def over_rate(self, names, policies, what="TTFT/TBT/both/gaps", cell=attained):
        """Settings beside each other."""
        columns = [(name, rate) for name in names for rate in self.setting(name).rates]
        return table([what, *(f"{rate:g}/s" for _, rate in columns)],
                     [[policy, *(cell(self.total(name, rate, policy)) for name, rate in columns)]
                      for policy in policies])

    def attainment(self):
        return "\n\n".join(self.over_rate((name,), COMPARED) for name in ("qwen-third", "qwen"))

    def mixtral(self):
        return self.over_rate(("mixtral-third", "mixtral-papers"),
                              (ROTARY, "fcfs", "waiting-first", "artifact"), "both/gaps",
                              lambda total: f"{percent(total['slo_both_percent'])}/{of_gaps(total)}")

    @staticmethod
    def figures(report):
        total = report["total"]
        ttft, tbt = total["ttft"], total["tbt"]
        return [attained(total), f"{total['output_tokens_per_second']:,.0f}",
                f"{seconds(ttft['p50_ms'])}/{seconds(ttft['p99_ms'])}",
                f"{tbt['p50_ms']:.0f}/{tbt['p99_ms']:,.0f}",
                f"{report['rotation']['bytes_in'] / 1e12:.2f}"]

    FIGURES = ["TTFT/TBT/both/gaps", "tokens/s", "TTFT p50/p99, s", "TBT p50/p99, ms", "TB in"]

    def policies(self):
        return table(["policy", *self.FIGURES],
                     [[policy, *self.figures(self.report(ABLATED, ABLATED_RATE, policy))]
                      for policy in POLICIES
                      if policy not in (PAPER_ONE, "rotary, unanswered displace", "swapped-first")])

    def latency(self, name="qwen-third"):
        def cell(rate, policy):
            _, output, ttft, tbt, _ = self.figures(self.report(name, rate, policy))
            return f"{output}; {ttft}; {tbt}"

        rates = self.setting(name).rates
        return table(["tokens/s; TTFT p50/p99, s; TBT p50/p99, ms", *(f"{rate:g}/s" for rate in rates)],
                     [[policy, *(cell(rate, policy) for rate in rates)] for policy in COMPARED])

    def ablation(self):
        rows = []
        for title, policy, variants in ablations():
            for row, options, link in variants:
                kept, output, ttft, _, moved = self.figures(
                    self.report(ABLATED, ABLATED_RATE, policy, options, link))
                rows.append([policy, f"{title} {row}".strip(), kept, output, ttft, moved])
        return table(["policy", "what", "TTFT/TBT/both/gaps", "tokens/s", "TTFT p50/p99, s", "TB in"],
                     rows)

    def paper_rates(self):
        rows = []
        for name in ("qwen-chats", "llama-chats"):
            for policy in (ROTARY, "fcfs"):
                setting = self.setting(name)
                cells = [f"{rate:g}: {attained(self.total(name, rate, policy))}"
                         for rate in setting.rates]
                rows.append([setting.name, policy, "; ".join(cells)])
        return table(["setting", "policy", "rate: TTFT/TBT/both/gaps"], rows)

    def sustained(self):
        rows, policies = [], (ROTARY, PAPER, PAPER_ONE, "fcfs")
        for name in ("overload", "qwen-third", "qwen-minute", "qwen"):
            setting = self.setting(name)
            least = {policy: crossing([(rate, self.total(name, rate, policy)["slo_both_percent"])
                                       for rate in setting.rates]) for policy in policies}
            rows.append([f"{setting.name}, {setting.seconds:g} s",
                         *(rate_text(least[policy]) for policy in policies),
                         *(ratio_text(least[policy], least["fcfs"]) for policy in policies[:-1])])
        return table(["setting", *policies, *(f"{policy} ÷ fcfs" for policy in policies[:-1])], rows)

    def charts(self, name="qwen-third"):
        """(name, SVG)."""
        for field, title, unit in (("slo_ttft_percent", "requests that keep the target of TTFT", "%"),
                                   ("slo_both_percent", "requests that keep both targets", "%")):
            lines = {policy: [(rate, self.total(name, rate, policy)[field])
                              for rate in self.setting(name).rates] for policy in COMPARED}
            yield field.removesuffix("_percent").replace("_", "-"), svg.lines(
                f"{title}: {self.setting(name).name}", "requests a second", unit, lines)


NAMES = ("overload", "sustained", "attainment", "mixtral", "policies", "latency", "ablation", "paper_rates")


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
