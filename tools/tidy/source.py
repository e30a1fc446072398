"""A C++ file as the rules see it: its text, its text without comments and literals, its functions.
And what of a page is prose."""

import ast
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.S,
)
_CONTROL = re.compile(r"\b(if|for|while|switch|catch|do|else|try|namespace|struct|class|union|enum)\b")


@dataclass
class Function:
    line: int
    lines: int
    kernel: bool


@dataclass
class Source:
    path: PurePosixPath
    text: str
    code: str = field(init=False)  # same line numbers; comments and literals blanked

    def __post_init__(self):
        self.code = _LITERALS.sub(_blank, self.text)

    def words(self):
        """Matches of its comments and literals."""
        return _LITERALS.finditer(self.text)

    @property
    def lines(self):
        return self.text.splitlines()

    @property
    def is_header(self):
        return self.path.suffix in (".h", ".cuh")

    @property
    def module(self):
        """base, device, … for src/<module>/…; None elsewhere."""
        parts = self.path.parts
        return parts[1] if len(parts) > 2 and parts[0] == "src" else None

    def includes(self):
        """(line, path) of every #include "…"."""
        for number, line in enumerate(self.lines, 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match:
                yield number, match.group(1)

    def functions(self):
        """Every function body: a brace block whose head ends in a parameter list."""
        stack, head_start = [], 0
        for position, char in enumerate(self.code):
            if char == "{":
                head = self.code[head_start:position]
                stack.append((position, head, _is_function_head(head)))
                head_start = position + 1
            elif char == "}" and stack:
                start, head, is_function = stack.pop()
                head_start = position + 1
                # Lambdas and local blocks count as part of the function around them.
                if is_function and not any(outer[2] for outer in stack):
                    first = self.code.count("\n", 0, start) + 1
                    last = self.code.count("\n", 0, position) + 1
                    yield Function(first, last - first + 1, "__global__" in head)
            elif char == ";":
                head_start = position + 1


def _blank(match):
    text = match.group(0)
    return "\n" * text.count("\n") if "\n" in text else " " * len(text)


def _is_function_head(head):
    head = re.sub(r"^\s*#.*$", "", head, flags=re.M).strip()
    if "(" not in head or head.endswith(("=", ",", "(")) or re.search(r"=\s*$", head):
        return False
    before_parameters = head.split("(", 1)[0]
    return not _CONTROL.search(before_parameters)


def python_functions(text):
    """(line, lines) of every function of a Python file; inner functions count as part of theirs too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def prose_lines(text):
    """(line, text) of a page outside tables and blocks of code, without what its links lead to."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    ") and not line.lstrip().startswith("|"):
            yield number, re.sub(r"\]\([^)]*\)|<?https?://\S+", "]", line)
