"""Charts from the JSON of `causeway replay`."""

import svg

FIGURES = (("load", "requests", "requests",
            (("arrivals", "arrived"), ("attained", "of these, kept both targets"), ("running", "running"))),
           ("ttft", "first token", "ms", (("ttft_most_ms", "longest"), ("ttft_mean_ms", "mean"))))


def replay(document):
    """Over time: how many came, kept their targets and ran; how long they waited for the first token."""
    length = document["slot_s"]
    for figure, title, unit, fields in FIGURES:
        lines = {name: [(length * i, slot[field]) for i, slot in enumerate(document["slots"])]
                 for field, name in fields}
        each = "" if length == 1 else f", each {length:g} s"
        if document["slots"]:
            yield f"replay-{document['mode']}-{figure}", svg.lines(
                f"{title}, {document['source']}", f"s{each}", unit, lines)


CHARTS = {"replay": replay}
