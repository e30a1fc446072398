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
    if bytes_moved := moved(document):
        yield f"replay-{document['mode']}-bytes", svg.lines(
            f"over links, {document['source']}", f"s{each}", "GB a second", bytes_moved)


def attained(document):
    """Percent of the requests that came in each slot; what came in none keeps nothing."""
    length = document["slot_s"]
    return [(length * i, 100 * slot["attained"] / slot["arrivals"])
            for i, slot in enumerate(document["slots"]) if slot["arrivals"]]


def moved(document):
    """{purpose: [(second, GB a second)]}"""
    length = document["slot_s"]
    purposes = sorted({purpose for slot in document["slots"] for purpose in slot.get("bytes", {})})
    return {purpose: [(length * i, slot.get("bytes", {}).get(purpose, 0) / 1e9 / length)
                      for i, slot in enumerate(document["slots"])] for purpose in purposes}


def beside(documents):
    """The longest wait for the first token of each slot, and how many kept their targets; `documents`:
    name → a run of the same list."""
    lengths = {document["slot_s"] for document in documents.values()}
    if len(lengths) != 1:
        raise ValueError(f"runs of one list have slots of one length, these have {sorted(lengths)} s")
    length = lengths.pop()
    lines = {name: [(length * i, slot["ttft_most_ms"]) for i, slot in enumerate(document["slots"])]
             for name, document in documents.items()}
    yield "replay-beside", svg.lines("longest wait for a first token, by the second of arrival",
                                     "s" if length == 1 else f"s, each {length:g} s", "ms", lines)
    kept = {name: attained(document) for name, document in documents.items()}
    yield "attained-beside", svg.lines("requests that kept both targets, by the second of arrival",
                                       "s" if length == 1 else f"s, each {length:g} s", "%", kept)


CHARTS = {"replay": replay}
