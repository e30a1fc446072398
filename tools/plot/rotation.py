"""Charts from the JSON of `causeway bench slo`."""

import svg

FIGURES = (("both_attained", "attained", "requests that keep both targets", "%", 100),
           ("ttft_attained", "attained-ttft", "requests that keep the target of the first token", "%", 100),
           ("output_tokens_per_second", "throughput", "output", "tokens/s", 1))


def slo(document):
    """Over the rate of requests, a line for each policy."""
    for field, name, title, unit, scale in FIGURES:
        lines = {}
        for row in document["rows"]:
            lines.setdefault(row["policy"], []).append((row["rate"], scale * row[field]))
        yield f"slo-{name}", svg.lines(title, "requests a second", unit, lines)


CHARTS = {"slo": slo}
