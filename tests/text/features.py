"""Templates, one for each feature of the language, with the variables that they see. Each is rendered
by the reference and by the C++ implementation, which must agree. They are in
src/text/jinja/testdata/features.json, a line each, with the reference's answer, which the unit tests
compare with too:

    {"variables": {…},
     "expressions": [["1 + 2", "3"], …],    without their braces
     "templates": [["{% if %}", null], …]}  null: the reference fails

An answer that differs from run to run is missing. make_feature_cases.py writes the answers.
"""

import json
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "src" / "text" / "jinja" / "testdata" / "features.json"
DOCUMENT = json.loads(FILE.read_text(encoding="utf-8"))
CASE = DOCUMENT["variables"]
EXPRESSIONS = [case[0] for case in DOCUMENT["expressions"]]


def source_of(expression):
    return "{{ " + expression + " }}"


def sources():
    return list(map(source_of, EXPRESSIONS)) + [case[0] for case in DOCUMENT["templates"]]
