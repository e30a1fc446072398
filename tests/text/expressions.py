"""Random expressions and templates over the variables of features.CASE: syntactically right, mostly
meaningful, so that the reference and the C++ implementation are compared where no one thought of."""

import random

ATOMS = ["s", "u", "n", "neg", "f", "yes", "no", "nil", "lst", "words", "nested", "d", "recs", "lines",
         "empty", "missing", "spaces", "messages", "tools", "1", "0", "2", "-1", "2.5", "'a'", "'l'",
         "', '", "''", "[]", "[1, 'a']", "{}", "{'a': 1}", "(1, 2)", "true", "none", "bos_token", "'<'|safe", "'a<%s>'|safe", "'<{}&'|safe", "'<b>&\"'"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "first", "last", "list", "string",
           "int", "float", "tojson", "default('x')", "default('x', true)", "join", "join('-')",
           "replace('l', 'L')", "sort", "reverse", "unique", "sum", "min", "max", "abs", "round",
           "map('string')", "map('upper')", "map(attribute='k')", "map('length')", "select", "reject",
           "select('string')", "select('odd')", "selectattr('k')", "selectattr('v', 'gt', 1)",
           "rejectattr('on')", "items", "dictsort", "indent", "tojson(indent=2)", "batch(2)",
           "join(', ', attribute='k')", "sort(attribute='v')", "sum(attribute='v')", "wordcount",
           "groupby('v')", "int(7)", "count", "format(1)", "map('int')", "map('trim')", "safe", "safe",
           "e", "forceescape", "tojson|safe", "map('safe')", "replace('o', '<')", "join('<'|safe)",
           "indent(2)", "indent('>'|safe)", "format('<', 2)", "center(9)", "slice(2)", "slice(3, 'x')",
           "truncate(5)", "truncate(6, true, '<', 0)", "urlencode", "pprint", "striptags", "wordwrap(6)",
           "wordwrap(5, false)", "wordwrap(4, true, '|', false)", "filesizeformat", "urlize", "xmlattr"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping",
         "iterable", "sequence", "true", "false", "odd", "even", "divisibleby 2", "eq 1", "in lst",
         "in 'abc'", "lower", "upper", "sameas none", "callable", "equalto('a')", "gt 1", "escaped"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
          "and", "or"]
POSTFIX = [".k", ".a", "['a']", "[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[1:3]", "[::2]", "[-3::-2]",
           ".upper()", ".strip()", ".split()", ".split('l')", ".title()", ".items()", ".keys()",
           ".values()", ".get('a')", ".get('zz', 1)", ".startswith('H')", ".endswith(('d', 'b'))",
           ".replace('l', 'x')", ".find('l')", ".count('l')", ".splitlines()", ".rsplit('l', 1)",
           ".lstrip('H')", ".rstrip()", ".capitalize()", ".lower()", ".index(1)", ".missing", ".role",
           ".content", "[n]", "['x y']", ".partition('l')", ".isdigit()", ".join(words)", ".replace('l', '<')", ".format('<', n)",
           ".join(['<', 'a'|safe])", ".ljust(4)", ".rjust(9, '<')", ".zfill(7)", ".center(6)", ".encode()",
           ".encode('ascii', 'replace')", ".swapcase()", ".isalpha()"]


def expression(rng, depth):
    kind = rng.random()
    if depth <= 0 or kind < 0.12:
        return rng.choice(ATOMS)
    if kind < 0.34:
        return f"{expression(rng, depth - 1)}|{rng.choice(FILTERS)}"
    if kind < 0.56:
        return f"{operand(rng, depth - 1)}{rng.choice(POSTFIX)}"
    if kind < 0.66:
        return f"{operand(rng, depth - 1)} is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if kind < 0.86:
        return (f"{expression(rng, depth - 1)} {rng.choice(BINARY)} {expression(rng, depth - 1)}")
    if kind < 0.90:
        return f"not {expression(rng, depth - 1)}"
    if kind < 0.94:
        return f"[{expression(rng, depth - 1)}, {expression(rng, depth - 1)}]"
    return (f"{operand(rng, depth - 1)} if {expression(rng, depth - 1)} else "
            f"{operand(rng, depth - 1)}")


def operand(rng, depth):
    inner = expression(rng, depth)
    return inner if inner.isidentifier() or inner[:1] in "[{('" and depth <= 0 else f"({inner})"


def space(rng):
    return rng.choice(["", " ", "\n", "  \n", "\n  ", "x", " y ", "\t\n\n"])


def tag(rng, inside):
    return (rng.choice(["{%", "{%", "{%-", "{%+"]) + f" {inside} " +
            rng.choice(["%}", "%}", "-%}", "+%}"]))


def template(rng, depth):
    """White space control around nested statements."""
    parts = []
    for _ in range(rng.randint(1, 3)):
        parts.append(space(rng))
        kind = rng.random()
        if depth <= 0 or kind < 0.3:
            parts.append(rng.choice(["{{ ", "{{- "]) + expression(rng, 1) + rng.choice([" }}", " -}}"]))
        elif kind < 0.4:
            parts.append(rng.choice(["{# c #}", "{#- c -#}", "{# c -#}", "{#+ c +#}"]))
        elif kind < 0.5:
            parts.append(tag(rng, f"set v{rng.randint(0, 2)} = {expression(rng, 2)}"))
        elif kind < 0.6:
            parts.append("{{ v%d }}" % rng.randint(0, 2))
        elif kind < 0.75:
            parts += [tag(rng, f"if {expression(rng, 2)}"), template(rng, depth - 1),
                      tag(rng, "else"), template(rng, depth - 1), tag(rng, "endif")]
        elif kind < 0.95:
            over = rng.choice(["lst", "words", "recs", "d", "s", "range(3)", expression(rng, 2)])
            name = rng.choice(["v0", "v1", "v2"])
            parts += [tag(rng, f"for {name} in ({over})"), "{{ loop.index }}", template(rng, depth - 1),
                      tag(rng, "endfor")]
        else:
            parts += [tag(rng, "set v0"), template(rng, depth - 1), tag(rng, "endset")]
    parts.append(space(rng))
    return "".join(parts)


def sources(seed, count):
    rng = random.Random(seed)
    return [("{{ " + expression(rng, rng.randint(1, 4)) + " }}") if i % 3 else template(rng, 3)
            for i in range(count)]
