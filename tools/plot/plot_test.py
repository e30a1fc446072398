#!/usr/bin/env python3
"""Charts hold what they were given, at the right places."""

import re
import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import plot
import residency
import svg
import transfer

SVG = "{http://www.w3.org/2000/svg}"


def row(part, what, **figures):
    return {"part": part, "what": what, "figures": figures}


class Svg(unittest.TestCase):
    def test_ticks_are_round_and_reach_the_top(self):
        self.assertEqual(svg.ticks(97), [0, 20, 40, 60, 80, 100])
        self.assertEqual(svg.ticks(1), [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0])
        for top in (0.013, 7, 55.2, 203, 9999):
            self.assertGreaterEqual(svg.ticks(top)[-1], top * 0.999)
        self.assertEqual(svg.ticks(0), [0, 1])

    def test_lines_go_up_where_values_do(self):
        root = xml.fromstring(svg.lines("t", "x", "y", {"a": [(1, 1), (2, 2), (4, 3)]}, log_x=True))
        points = root.find(f"{SVG}polyline").get("points").split()
        xs = [float(p.split(",")[0]) for p in points]
        ys = [float(p.split(",")[1]) for p in points]
        self.assertAlmostEqual(xs[1] - xs[0], xs[2] - xs[1], delta=0.2)  # powers are equally far
        self.assertGreater(ys[0], ys[1])
        self.assertGreater(ys[1], ys[2])
        self.assertEqual(xs[0], svg.LEFT)

    def test_bars_are_as_tall_as_their_values(self):
        text = svg.bars("t", "y", {"one": {"a": 10, "b": 5}, "two & three": {"a": 0, "b": 10}})
        heights = [float(r.get("height")) for r in xml.fromstring(text).iter(f"{SVG}rect")
                   if r.get("y") and float(r.get("width")) > 12.5]
        self.assertAlmostEqual(heights[0], 2 * heights[1], delta=0.2)
        self.assertEqual(heights[2], 0)
        self.assertIn("two &amp; three", text)


class Transfer(unittest.TestCase):
    def test_sizes_in_names(self):
        self.assertEqual(transfer.bytes_of("in 64 KiB"), 65536)
        self.assertEqual(transfer.bytes_of("2.8 MiB × 2"), 2.8 * (1 << 20))
        self.assertEqual(transfer.bytes_of("out 7 B"), 7)
        self.assertEqual(transfer.size_text(3 << 30), "3 GiB")

    def test_each_part_has_its_charts(self):
        both = {"native GB/s": 50, "ours GB/s": 99}
        rows = [row("sizes", f"{way} {size}", **both) for way in ("in", "out")
                for size in ("1 KiB", "1 GiB")]
        rows += [row("of best set", "in 1 GiB, best 0,1", **{"best GB/s": 100})]
        rows += [row("gpus", f"in {n}, best 0", **{"best GB/s": n, "first ones GB/s": n})
                 for n in (1, 2)]
        rows += [row("chunks", "4 MiB × 2", **{"in GB/s": 90, "out GB/s": 80})]
        rows += [row("segments", "in 64 × 64 KiB",
                     **{"loop GB/s": 1, "batch GB/s": 2, "ours GB/s": 3})]
        charts = dict(transfer.charts({"rows": rows}))
        self.assertEqual(set(charts), {"sizes-in", "sizes-out", "gpus", "chunks-in", "chunks-out",
                                       "segments"})
        for text in charts.values():
            xml.fromstring(text)
        self.assertIn("best set GB/s", charts["sizes-in"])
        self.assertNotIn("best set GB/s", charts["sizes-out"])
        self.assertEqual(len(re.findall("<polyline", charts["sizes-in"])), 3)

    def test_nothing_gives_nothing(self):
        self.assertEqual(list(transfer.charts({"rows": []})), [])


class Replay(unittest.TestCase):
    def document(self, mode, slot_s=1):
        slots = [{"arrivals": 9, "attained": 8, "running": i, "ttft_mean_ms": 20, "ttft_most_ms": 70}
                 for i in range(5)]
        return {"bench": "replay", "mode": mode, "source": "here & now", "slot_s": slot_s, "slots": slots}

    def test_a_server_and_the_simulator_have_charts_of_their_own(self):
        charts = dict(plot.charts([self.document("server"), self.document("simulated", 3)]))
        self.assertEqual(set(charts), {f"replay-{mode}-{figure}" for mode in ("server", "simulated")
                                       for figure in ("load", "ttft")})
        lines = xml.fromstring(charts["replay-server-load"]).findall(f"{SVG}polyline")
        self.assertEqual([len(line.get("points").split()) for line in lines], [5, 5, 5])
        running = [float(point.split(",")[1]) for point in lines[2].get("points").split()]
        self.assertEqual(running, sorted(running, reverse=True))
        self.assertIn("here &amp; now", charts["replay-server-ttft"])
        self.assertIn("each 3 s", charts["replay-simulated-ttft"])

    def test_runs_of_one_list_are_drawn_beside_each_other(self):
        runs = {"reload": self.document("server"), "at home": self.document("server")}
        charts = dict(plot.replay.beside(runs))
        self.assertEqual(set(charts), {"replay-beside", "attained-beside"})
        for name in runs:
            self.assertIn(name, charts["replay-beside"])
        self.assertEqual(len(xml.fromstring(charts["replay-beside"]).findall(f"{SVG}polyline")), 2)
        with self.assertRaisesRegex(ValueError, "one length"):
            dict(plot.replay.beside({"a": self.document("server"), "b": self.document("server", 3)}))

    def test_attainment_is_of_what_came(self):
        document = self.document("simulated")
        document["slots"][1] |= {"arrivals": 0, "attained": 0}
        document["slots"][2] |= {"arrivals": 4, "attained": 1}
        kept = dict(plot.replay.attained(document))
        self.assertEqual(sorted(kept), [0, 2, 3, 4])
        self.assertEqual(kept[2], 25)

    def test_bytes_are_drawn_by_purpose_where_they_are_known(self):
        document = self.document("simulated", 2)
        document["slots"][1]["bytes"] = {"weights in": 4e9}
        document["slots"][3]["bytes"] = {"weights in": 2e9, "KV in": 1e9}
        self.assertEqual(plot.replay.moved(document)["weights in"],
                         [(0, 0), (2, 2), (4, 0), (6, 1), (8, 0)])
        chart = dict(plot.charts([document]))["replay-simulated-bytes"]
        self.assertEqual(len(xml.fromstring(chart).findall(f"{SVG}polyline")), 2)

    def test_nothing_replayed_gives_nothing(self):
        self.assertEqual(dict(plot.charts([{**self.document("server"), "slots": []}])), {})


class Residency(unittest.TestCase):
    def rows(self, model=""):
        return [{"figure": figure, "model": model, "start": start, "measured": measured, "limit": 270.0}
                for start, measured in (("", 280.0), ("at once", 300.0))
                for _, figure in residency.WAYS]

    def test_first_tokens_are_bars_beside_the_link(self):
        other = {"figure": "between tokens", "model": "", "start": "", "measured": 1, "limit": 0}
        charts = dict(residency.switch({"rows": self.rows() + [other]}))
        self.assertEqual(set(charts), {"first-token"})
        xml.fromstring(charts["first-token"])
        for word in ("as served", "at once", "idle", "beside", "link alone"):
            self.assertIn(word, charts["first-token"])
        self.assertNotIn("between", charts["first-token"])

    def test_each_model_has_a_chart(self):
        charts = dict(residency.switch({"rows": self.rows("a") + self.rows("b")}))
        self.assertEqual(set(charts), {"first-token-a", "first-token-b"})

    def test_a_catalogue_is_a_line_that_rises(self):
        charts = dict(plot.charts([{"bench": "catalogue", "rows": [],
                                    "first_token_ms": {"by_percent": list(range(101))}}]))
        self.assertEqual(set(charts), {"catalogue"})
        points = xml.fromstring(charts["catalogue"]).find(f"{SVG}polyline").get("points").split()
        self.assertEqual(len(points), 101)
        self.assertGreater(float(points[0].split(",")[1]), float(points[-1].split(",")[1]))

    def test_policies_are_lines_over_the_rate(self):
        rows = [{"rate": rate, "policy": policy, "both_attained": 0.5, "ttft_attained": 0.6,
                 "output_tokens_per_second": 100}
                for rate in (1, 2, 4) for policy in ("fcfs", "rotary")]
        charts = dict(plot.charts([{"bench": "slo", "rows": rows}]))
        self.assertEqual(set(charts), {"slo-attained", "slo-attained-ttft", "slo-throughput"})
        lines = xml.fromstring(charts["slo-attained"]).findall(f"{SVG}polyline")
        self.assertEqual([len(line.get("points").split()) for line in lines], [3, 3])
        self.assertIn("rotary", charts["slo-attained"])

    def test_streamed_decode_over_the_share_in_hbm(self):
        def row(figure, share, measured):
            return {"figure": figure, "start": share, "measured": measured, "limit": measured - 1,
                    "model": "m"}
        rows = [row("decode, batch 1", "0.25 in HBM", 9), row("decode, batch 1", "0.5 in HBM", 6),
                row("first token, prompt of 8", "0.5 in HBM", 7)]
        charts = dict(plot.charts([{"bench": "stream", "rows": rows}]))
        self.assertEqual(set(charts), {"decode"})
        lines = xml.fromstring(charts["decode"]).findall(f"{SVG}polyline")
        self.assertEqual(len(lines), 2)
        self.assertIn("the link alone", charts["decode"])
        self.assertEqual(dict(plot.charts([{"bench": "stream", "rows": [row("decode, batch 1", "", 1)]}])), {})

    def test_a_bench_without_charts_gives_none(self):
        self.assertEqual(list(plot.charts([{"bench": "load", "rows": self.rows()}])), [])


if __name__ == "__main__":
    unittest.main()
