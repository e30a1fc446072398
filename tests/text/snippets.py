"""Random snippets of templates: what published templates do (macros, call blocks, namespaces, markup,
tool definitions as JSON), each with parts of it exchanged for random expressions and features."""

import random

import expressions
import features

# {e} is any expression, {l} one that is mostly a list, {f} a filter, {n} a name of a variable.
SHAPES = [
    "{{{{ {e} }}}}",
    "{{% set {n} = {e} %}}{{{{ {n} {f} }}}}",
    "{{% set {n} %}}a{{{{ {e} }}}}{{% endset %}}{{{{ {n} + {n} }}}}",
    "{{% for {n} in {l} %}}{{{{ {n} {f} }}}},{{% else %}}none{{% endfor %}}",
    "{{% for {n} in {l} if {n} {t} %}}{{{{ loop.index }}}}{{{{ {n} }}}}{{% endfor %}}",
    "{{% for {n}, v2 in {l} %}}{{{{ {n} }}}}={{{{ v2 {f} }}}};{{% endfor %}}",
    "{{% if {e} %}}{{{{ {e} }}}}{{% elif {e} %}}b{{% else %}}c{{% endif %}}",
    "{{% macro m(a, b={e}) %}}[{{{{ a {f} }}}}{{{{ b + '<' }}}}]{{% endmacro %}}{{{{ m({e}) {f} }}}}",
    "{{% macro m() %}}{{{{ caller() {f} }}}}{{% endmacro %}}{{% call m() %}}{{{{ {e} }}}}{{% endcall %}}",
    "{{% set ns = namespace(x={e}) %}}{{% for i in {l} %}}{{% set ns.x = i {f} %}}{{% endfor %}}"
    "{{{{ ns.x }}}}",
    "{{% filter {g} %}}<{{{{ {e} }}}}> &{{% endfilter %}}",
    "{{% with {n} = {e} %}}{{{{ {n} {f} }}}}{{% endwith %}}",
    "{{{{ '<' + ({e} | tojson | safe) + {e} }}}}",
    "{{{{ '%s<%s' | safe | format({e}, {e}) }}}}",
    "{{{{ ({e}) {f} {f} ~ '|' ~ ({e}) {f} }}}}",
    "{{% if {e} {t} %}}{{{{ {l} {f} {f} }}}}{{% endif %}}",
]
LISTS = ["lst", "words", "recs", "messages", "tools", "d.items()", "nil | selectattr('k')", "range(3) | list",
         "recs | selectattr('v', 'gt', 1)", "nested", "0 | map('upper')", "s.split('o')", "d | dictsort",
         "recs | map(attribute='k')", "s | safe", "(lines | safe).splitlines()", "lst | slice(2)"]


def any_expression(rng):
    if rng.random() < 0.4:
        return "(" + rng.choice(features.EXPRESSIONS) + ")"
    return "(" + expressions.expression(rng, rng.randint(0, 3)) + ")"


class Parts(dict):
    """Every use of a part is another one, but the name, which is the same all over a snippet."""

    def __init__(self, rng):
        super().__init__(n=rng.choice(["v0", "v1", "x"]))
        self.rng = rng

    def __missing__(self, part):
        rng = self.rng
        if part == "e":
            return any_expression(rng)
        if part == "l":
            return rng.choice(LISTS) if rng.random() < 0.8 else any_expression(rng)
        if part == "t":
            return "is " + rng.choice(["", "not "]) + rng.choice(expressions.TESTS)
        if part == "g":
            return rng.choice(expressions.FILTERS)
        return "| " + rng.choice(expressions.FILTERS) if rng.random() < 0.6 else ""


def snippet(rng):
    return " ".join(rng.choice(SHAPES).format_map(Parts(rng)) for _ in range(rng.randint(1, 2)))


def sources(seed, count):
    rng = random.Random(f"snippets {seed}")
    return [snippet(rng) for _ in range(count)]
