"""Jinja2 set up as Hugging Face transformers sets it up for chat templates: the reference that the
C++ implementation is compared with."""

import collections.abc
import copy
import datetime
import functools
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = 1_763_640_000  # a fixed instant for strftime_now


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %} prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(
        tzinfo=None).strftime(form)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


class Printable:
    """A generator that was run when it was made, and prints what it gives."""

    def __init__(self, items):
        self.items = list(items)
        self.rest = iter(self.items)

    def __iter__(self):
        return self.rest

    def __next__(self):
        return next(self.rest)

    def __repr__(self):
        return f"generator({self.items!r})"


def eager(filter_function):
    @functools.wraps(filter_function)
    def run(*arguments, **named):
        result = filter_function(*arguments, **named)
        return Printable(result) if isinstance(result, collections.abc.Iterator) else result
    return run


def eager_environment():
    env = environment()
    env.filters = {name: eager(function) for name, function in env.filters.items()}
    return env


def variables(case):
    """What a template sees for a case of render_template.cc."""
    seen = {"documents": None}
    for token in ("bos_token", "eos_token"):
        if case.get(token):
            seen[token] = case[token]
    seen.update(case.get("extra") or {})
    seen["messages"] = case["messages"]
    seen["tools"] = case.get("tools")
    seen["add_generation_prompt"] = case.get("add_generation_prompt", True)
    return seen


def render(compiled, case):
    """{"text": ...} or {"error": ...}, as render_template.cc answers."""
    if isinstance(compiled, dict):
        return compiled
    try:
        # A copy: Jinja's own filters can change a list ("indent" adds to one).
        return {"text": compiled.render(**copy.deepcopy(variables(case)))}
    except Exception as error:  # any of Python's: whatever a template can run into
        return {"error": f"{type(error).__name__}: {error}"}


def compile_template(env, source):
    try:
        return env.from_string(source)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
