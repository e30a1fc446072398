"""The rules of the house. Each is a function: a Tree in, findings out; tidy_test.py tests each."""

import posixpath
import re
from collections import namedtuple
from pathlib import PurePosixPath

import structure
from rooms import NOT_PRODUCT, rooms
from source import prose_lines, python_functions

Finding = namedtuple("Finding", "path line rule message")

# A module includes only modules of a lower number; equal numbers do not see each other.
LAYERS = {
    "base": 0,
    "device": 1, "topology": 1,
    "transfer": 2, "kernels": 2,
    "preload": 3, "weights": 3, "kv": 3, "text": 3,
    "request": 4,
    "model": 5, "schedule": 5, "grammar": 5,
    "engine": 6,
    "slice": 7,
    "fleet": 8,
    "server": 9, "simulate": 9, "worker": 9,
    "bench": 10,
}

# pattern, what to use instead, pattern of the paths where it is allowed
BANNED = [
    (r"_clock::now\b", "take a Clock& or `now` (base/clock.h)", r"^src/base/clock\.cc$"),
    (r"\bs?rand\s*\(|\bmt19937\b", "take a Random& (base/random.h)", None),
    (r"\brandom_device\b", "take a Random& (base/random.h)", r"^apps/|/testing/"),
    (r"\bsleep_(?:for|until)\b|\bu?sleep\s*\(", "wait on a condition variable with a time-out", None),
    (r"\bgetenv\s*\(", "read options in apps/ and pass them", r"^(apps|tests)/|^src/preload/settings\.cc$|/testing/|_(test|bench)\.cc$"),
    (r"\bcudaDeviceSynchronize\b", "wait for an event or a stream", None),
    (r"\bcudaStreamLegacy\b|<<<[^>]*,\s*0\s*,\s*0\s*>>>", "launch on a named stream", None),
    (r"(?<!operator )\bnew\b(?!\s*\()", "std::make_unique", None),
    (r"(?<!= )(?<!operator )\bdelete\b", "an owning type", None),
    (r"\bprintf\s*\(", "fmt::print or the log", r"^(apps|tests)/|^src/base/check\.cc$|_bench\.cc$"),
]
# Benchmarks and CUDA experiments print and time by themselves.
BANNED_EXEMPT_SUFFIXES = ("_bench.cu", "_test.cu")

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
KERNEL_LINES_MAX = 250
COLUMNS_MAX = 100
MEASUREMENT_WORDS_MAX = 8000  # of all pages together, as `wc -w` counts
MEASUREMENT_FOLDERS = (("docs", "measurements"), ("docs", "papers"))
BLOB_BYTES_MAX = 256 * 1024
# Programs of their own, the preload library, whose options are variables, and what sets the driver's.
OPTIONS_EXEMPT = (r"_(test|bench|fuzz)\.\w+$|/bench/|/testing/|^src/preload/"
                  r"|^src/device/cuda/cuda_queues\.\w+$")
# An option, a variable of the environment or a command, in a text.
OPTION = r'(?:^|[ (])--[a-z][a-z-]+|`causeway |\b(?:CUDA|NVIDIA|CAUSEWAY|LD|OMP)_[A-Z_]+\b'
# Assertions a function (rooms.py), of the rooms whose state outlives a call. They only rise.
ASSERTION_FLOORS = {"kv": 0.85, "schedule": 0.55, "engine": 0.50, "transfer": 0.50, "fleet": 0.50,
                    "preload": 0.50}
# Words for a subject that the reader has to guess; and how often a room may have them, where it is
# not never: this only falls.
RIDDLES = r"\b(?:nobody|whoever|whom(?:ever)?|who|somebody|everybody|anybody)\b"
RIDDLES_MAX = {"model": 2, "text": 1}  # a model's first text; a sentence about people
# Where no comment may begin with "Of", which leaves its subject to the code below it.
NO_FRAGMENTS = ("src", "tests")
# A commit's hash, and how many lines of a page of docs/design may have one: of checks and figures
# that no page of measurements has. This only falls.
COMMIT = re.compile(r"(?<![\w/-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![\w/-])")
DESIGN_COMMITS_MAX = {"chunks.md": 1, "fleet.md": 1, "kernels.md": 2, "packages.md": 1, "replay.md": 1,
                      "server.md": 1, "simulate.md": 12, "slice.md": 1, "text.md": 2, "worker.md": 1}


def layers(tree):
    for source in tree.sources:
        if source.module is None:
            continue
        if source.module not in LAYERS:
            yield Finding(source.path, 1, "layers", f"src/{source.module} is no module of the house")
            continue
        for line, target in source.includes():
            other = target.split("/")[0]
            if other == source.module or other not in LAYERS:
                continue
            if LAYERS[other] >= LAYERS[source.module]:
                yield Finding(source.path, line, "layers",
                              f"{source.module} ({LAYERS[source.module]}) may not include "
                              f"{other} ({LAYERS[other]})")


def program_without_measuring(tree):
    """Of the program, what measures, simulates and replays is in its folder bench: builds without
    it have the rest (docs/design/bench.md). Tests have both."""
    for source in tree.sources:
        place = source.path.parts
        if place[:2] != ("apps", "causeway") or place[2] == "bench" or source.path.stem.endswith("_test"):
            continue
        for line, target in source.includes():
            if target.split("/")[0] in ("bench", "simulate"):
                yield Finding(source.path, line, "measuring",
                              f"may not include {target}: builds without measuring have no such part")


def links_of_rooms(tree):
    """What a room's CMakeLists.txt names is of a lower room, or its own: `layers`, for linking."""
    for path, text in tree.texts.items():
        room = path.parts[1] if len(path.parts) > 2 and path.parts[0] == "src" else None
        if path.name != "CMakeLists.txt" or room not in LAYERS:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"\bcauseway(?:::|_)(\w+)", line.split("#")[0]):
                other = next((name for name in (target, target.split("_")[0]) if name in LAYERS), room)
                if other != room and LAYERS[other] >= LAYERS[room]:
                    yield Finding(path, number, "room-links",
                                  f"{room} ({LAYERS[room]}) may not link {other} ({LAYERS[other]})")


def include_cycles(tree):
    """Within a module, headers must not include each other in a circle."""
    by_name = {str(s.path.relative_to("src")): s for s in tree.sources if s.path.parts[0] == "src"}
    state = {}

    def visit(name, trail):
        state[name] = "open"
        for line, target in by_name[name].includes():
            if target not in by_name:
                continue
            if state.get(target) == "open":
                circle = " → ".join(trail[trail.index(target):] + [target])
                yield Finding(by_name[name].path, line, "include-cycles", circle)
            elif target not in state:
                yield from visit(target, trail + [target])
        state[name] = "done"

    for name in sorted(by_name):
        if name not in state:
            yield from visit(name, [name])


def banned_calls(tree):
    for source in tree.sources:
        if str(source.path).endswith(BANNED_EXEMPT_SUFFIXES):
            continue
        for number, line in enumerate(source.code.splitlines(), 1):
            if line.lstrip().startswith("#"):
                continue
            for pattern, instead, allowed in BANNED:
                found = re.search(pattern, line)
                if found and not (allowed and re.search(allowed, str(source.path))):
                    what = found.group(0).strip()
                    yield Finding(source.path, number, "banned", f"`{what}`: use {instead}")


def header_hygiene(tree):
    for source in tree.sources:
        if not source.is_header:
            continue
        if "#pragma once" not in source.text:
            yield Finding(source.path, 1, "headers", "no #pragma once")
        if not source.text.startswith("//"):
            yield Finding(source.path, 1, "headers", "does not open with a comment that says what it is")
        for number, line in enumerate(source.code.splitlines(), 1):
            if re.search(r"\busing\s+namespace\b", line):
                yield Finding(source.path, number, "headers", "`using namespace` in a header")


def cuda_headers(tree):
    """CUDA headers only where CUDA lives (style: Form)."""
    for source in tree.sources:
        if source.path.suffix in (".cu", ".cuh") or str(source.path).startswith(
                ("src/device/cuda/", "src/preload/")):
            continue
        for number, line in enumerate(source.lines, 1):
            if re.match(r"\s*#\s*include\s+<(cuda|cublas|nvml|cudnn|flashinfer)", line):
                yield Finding(source.path, number, "cuda-headers", "CUDA headers belong to device/cuda and .cu")


def ratchets(tree):
    for source in tree.sources:
        if len(source.lines) > FILE_LINES_MAX:
            yield Finding(source.path, 1, "size", f"{len(source.lines)} lines (at most {FILE_LINES_MAX})")
        for function in source.functions():
            limit = KERNEL_LINES_MAX if function.kernel else FUNCTION_LINES_MAX
            if function.lines > limit:
                yield Finding(source.path, function.line, "size",
                              f"function of {function.lines} lines (at most {limit})")
    for path, text in tree.texts.items():
        if path.suffix != ".py":
            continue
        try:
            functions = list(python_functions(text))
        except SyntaxError as error:
            yield Finding(path, error.lineno or 1, "size", f"not Python: {error.msg}")
            continue
        for line, lines in functions:
            if lines > FUNCTION_LINES_MAX:
                yield Finding(path, line, "size",
                              f"function of {lines} lines (at most {FUNCTION_LINES_MAX})")


def assertion_floors(tree):
    found = rooms(tree)
    for name, floor in ASSERTION_FLOORS.items():
        room = found.get(name)
        if room is not None and room.functions > 0 and room.share < floor:
            yield Finding(PurePosixPath("src") / name, 1, "assertions",
                          f"{room.assertions} in {room.functions} functions of more than a "
                          f"statement: {room.share:.2f} each (at least {floor:.2f})")


def options_in_libraries(tree):
    """The libraries' texts carry facts; which option, variable or command changes them, apps/ says
    (option_advice.cc)."""
    for source in tree.sources:
        path = str(source.path)
        if source.module is None or re.search(OPTIONS_EXEMPT, path):
            continue
        for number, line in enumerate(source.lines, 1):
            texts = re.findall(r'//.*|"((?:\\.|[^"\\])*)"', line)
            if any(re.search(OPTION, text) for text in texts):
                yield Finding(source.path, number, "options", "a library names no option, variable or "
                              "command: say what is wrong; apps/causeway/option_advice.cc names it")


def riddles(tree):
    """Comments and texts of the product, and pages, name their subject (CONTRIBUTING, Style)."""
    found = {}
    for source in tree.sources:
        if NOT_PRODUCT.search(str(source.path)):
            continue
        for literal in source.words():
            for word in re.finditer(RIDDLES, literal.group(0), re.I):
                line = source.text.count("\n", 0, literal.start() + word.start()) + 1
                room = source.module or source.path.parts[0]
                found.setdefault(room, []).append((source.path, line, word.group(0)))
    for room, places in sorted(found.items()):
        if len(places) > RIDDLES_MAX.get(room, 0):
            for path, line, word in places:
                yield Finding(path, line, "words", f"`{word}`: name the thread, the request, …")
    for path, text in tree.texts.items():
        for number, line in enumerate(text.splitlines(), 1) if path.suffix == ".md" else ():
            word = re.search(r"\b(?:nobody|whoever)\b(?!\")", line, re.I)
            if word:
                yield Finding(path, number, "words", f"`{word.group(0)}`: name the subject")


def fragments(tree):
    """A comment begins with its subject: "Of a step: …" can only be read with the code beside it."""
    for source in tree.sources:
        if source.path.parts[0] not in NO_FRAGMENTS:
            continue
        for literal in source.words():
            if re.match(r"(?://|/\*)\W*Of\b", literal.group(0)):
                line = source.text.count("\n", 0, literal.start()) + 1
                yield Finding(source.path, line, "fragments", "begin with the subject, not with `Of`")


def columns(tree):
    for source in tree.sources:
        for number, line in enumerate(source.lines, 1):
            if len(line) > COLUMNS_MAX:
                yield Finding(source.path, number, "columns", f"{len(line)} columns (at most {COLUMNS_MAX})")


def prose_columns(tree):
    for path, text in tree.texts.items():
        if path.suffix != ".md":
            continue
        for number, line in prose_lines(text):
            if len(line) > COLUMNS_MAX:
                yield Finding(path, number, "prose-columns",
                              f"{len(line)} columns (at most {COLUMNS_MAX})")


def measurement_words(tree):
    """Pages of measurements say what is, in tables; what was learnt is beside the code."""
    pages = [path for path in tree.texts
             if path.suffix == ".md" and path.parts[:2] in MEASUREMENT_FOLDERS]
    words = {path: len(tree.texts[path].split()) for path in pages}
    if sum(words.values()) > MEASUREMENT_WORDS_MAX:
        longest = max(pages, key=words.get)
        yield Finding(longest, 1, "measurement-words",
                      f"{sum(words.values())} words in all pages of measurements and papers (at most "
                      f"{MEASUREMENT_WORDS_MAX}), {words[longest]} in this one")


def design_commits(tree):
    """Pages of design say what is and what was learnt: what each commit took is for docs/measurements
    to say, and what came before for git."""
    for path, text in tree.texts.items():
        if path.suffix != ".md" or path.parts[:2] != ("docs", "design"):
            continue
        found = [(number, commit[0]) for number, line in enumerate(text.splitlines(), 1)
                 if (commit := COMMIT.search(line))]
        if len(found) > DESIGN_COMMITS_MAX.get(path.name, 0):
            for number, commit in found:
                yield Finding(path, number, "design-commits", f"{commit}: figures and their commits "
                              "belong to docs/measurements, history to git")


def links(tree):
    """What a page links to, and every page that a comment or a text names by its path, is there."""
    there = {str(place) for path in tree.paths for place in (path, *path.parents)}
    for path, text in tree.texts.items():
        if path.parts[:2] == ("tools", "tidy"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            targets = re.findall(r"\bdocs/[\w/.-]+\.md\b", line)
            if path.suffix == ".md":
                targets += [posixpath.normpath(str(path.parent / target)) for target in
                            re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", line)]
            for target in targets:
                if target not in there:
                    yield Finding(path, number, "links", f"there is no {target}")


def architecture(tree):
    """ARCHITECTURE.md draws the rooms as LAYERS and the includes have them, and the files that it
    names are there."""
    page = PurePosixPath("ARCHITECTURE.md")
    text = tree.texts.get(page)
    if text is None:
        return
    drawn = {name: int(layer) for layer, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.M)}
    for name in sorted(drawn.keys() | LAYERS.keys()):
        if drawn.get(name) != LAYERS.get(name):
            yield Finding(page, 1, "architecture", f"room {name}: {drawn.get(name)} in the table, "
                          f"{LAYERS.get(name)} in tools/tidy/rules.py")
    if structure.drawn(text) not in (None, structure.picture(tree, LAYERS)):
        yield Finding(page, 1, "architecture", "the picture of the rooms is not what they include: run "
                      "tools/tidy/structure.py")
    for name in re.findall(r"`(\w+/[\w/]+\.(?:h|cc|cu))`", text):
        if PurePosixPath("src") / name not in tree.texts:
            yield Finding(page, 1, "architecture", f"there is no src/{name}")


def numbered_decisions(tree):
    """A comment names a decision by its page: a number alone leads nowhere."""
    for source in tree.sources:
        for number, line in enumerate(source.lines, 1):
            if re.search(r"\b[Dd]ecisions? \d", line):
                yield Finding(source.path, number, "decisions", "name its page in docs/decisions/")


def patched(source, patch):
    """The source with the patch; None where lines that the patch looks for are not there."""
    for part in re.split(r"^@@ .*\n", patch, flags=re.M)[1:]:
        old, new = ("\n".join(line[1:] for line in part.splitlines() if line[:1] in (" ", sign))
                    for sign in "-+")
        if old not in source:
            return None
        source = source.replace(old, new, 1)
    return source


def planted_bugs(tree):
    """A patch for each planted bug, a test that runs it, and a page that says how many there are."""
    planted, tested, copies = {}, set(), dict(tree.texts)
    for source in tree.sources:
        if re.search(r"\bif \(CAUSEWAY_PLANTED\(|\bCAUSEWAY_PLANTED\(\d", source.code):
            yield Finding(source.path, 1, "planted-bugs", "a bug is planted by a patch in canaries/")
    for path, text in sorted(tree.texts.items()):
        if path.suffix == ".patch" and path.parent.name == "canaries":
            bugs = set(re.findall(r"^\+.*?\bCAUSEWAY_PLANTED\((\d+)\)", text, re.M))
            if bugs != {str(int(re.match(r"\d*", path.name).group() or 0))}:
                yield Finding(path, 1, "planted-bugs", "it plants one bug, that of its number")
            source = PurePosixPath(text.split("\n")[0].removeprefix("--- a/"))
            if source.parent != path.parents[1] or source not in tree.texts:
                yield Finding(path, 1, "planted-bugs", "its first line names a source of its module")
            elif (copy := patched(copies[source], text)) is None:
                yield Finding(path, 1, "planted-bugs", f"{source} has changed: plant the bug anew")
            else:
                copies[source] = copy
            planted.update((int(bug), path) for bug in bugs)
        if path.name == "CMakeLists.txt":
            for first, last in re.findall(r"foreach\(bug RANGE (\d+) (\d+)\)", text):
                tested.update(range(int(first), int(last) + 1))
    for bug in sorted(planted.keys() - tested):
        yield Finding(planted[bug], 1, "planted-bugs", f"no CMakeLists.txt tests planted bug {bug}")
    for bug in sorted(tested - planted.keys()):
        yield Finding(PurePosixPath("src"), 1, "planted-bugs", f"bug {bug} is tested and not planted")
    page = PurePosixPath("docs/decisions/0015-planted-bugs.md")
    if page in tree.texts and f": {len(planted)}, each" not in " ".join(tree.texts[page].split()):
        yield Finding(page, 1, "planted-bugs", f"there are {len(planted)} of them")


def unfinished(tree):
    pattern = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    for source in tree.sources:
        for number, line in enumerate(source.lines, 1):
            if pattern.search(line):
                yield Finding(source.path, number, "unfinished", "finish it, or write an issue")


def dead_headers(tree):
    used = {target for source in tree.sources for _, target in source.includes()}
    names = {PurePosixPath(target).name for target in used}
    build = "".join(text for path, text in tree.texts.items() if path.suffix == ".cmake")
    for source in tree.sources:
        if source.is_header and source.path.parts[0] == "src":
            relative = str(source.path.relative_to("src"))
            if relative not in used and source.path.name not in names and relative not in build:
                yield Finding(source.path, 1, "dead", "no file includes this header")


def registered_tests(tree):
    """Module tests are found by pattern; what lies in tests/ must be named by a CMakeLists.txt."""
    lists = [(path, text) for path, text in tree.texts.items() if path.name == "CMakeLists.txt"]
    for path in tree.paths:
        is_test = path.name.endswith(("_test.cc", "_test.py"))
        if is_test and path.parts[0] in ("tests", "tools"):
            if not any(path.name in text or path.stem in text for _, text in lists):
                yield Finding(path, 1, "unregistered", "no CMakeLists.txt names this test")
        elif is_test and path.parts[0] == "src":
            if PurePosixPath(*path.parts[:2]) / "CMakeLists.txt" not in tree.texts:
                yield Finding(path, 1, "unregistered", "its module has no CMakeLists.txt")


def blobs(tree):
    for path, size in tree.sizes.items():
        if size > BLOB_BYTES_MAX:
            yield Finding(path, 1, "blobs", f"{size} bytes (at most {BLOB_BYTES_MAX}): generate it")


def absolute_paths(tree):
    pattern = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/\w")
    for path, text in tree.texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line) and path.parts[:2] != ("tools", "tidy"):
                yield Finding(path, number, "absolute-paths", "a path of one machine")


def request_fields(tree):
    """The page has a row, with its reason, for every field that the server takes and ignores."""
    source = PurePosixPath("src/server/api/parse_neutral.cc")
    page = PurePosixPath("docs/design/request_fields.md")
    code = tree.texts.get(source)
    if code is None:
        return
    lists = " ".join(re.findall(r"\bk(?:Harmless|NeutralWhen\w+)\s*=\s*\{(.*?)\};", code, re.S))
    rows = " ".join(re.findall(r"\bkNeutral(?:Texts|Numbers)\s*=\s*\{(.*?)\};", code, re.S))
    taken = set(re.findall(r'"(\w+)"', lists)) | set(re.findall(r'\{"(\w+)", *[{\d-]', rows))
    taken |= set(re.findall(r'fields\.value\("(\w+)"\)', code))
    told = set(re.findall(r"^\| `(\w+)` \|", tree.texts.get(page, ""), re.M))
    for name in sorted(taken - told):
        yield Finding(source, 1, "request-fields", f"{page} has no row for `{name}`")
    for name in sorted(told - taken):
        yield Finding(page, 1, "request-fields", f"`{name}` is not in {source}")


def conformance(tree):
    """Every test that the table of conformance names is there."""
    page = PurePosixPath("docs/conformance.md")
    for number, line in enumerate(tree.texts.get(page, "").splitlines(), 1):
        for name, case in re.findall(r"`([\w/.-]+_(?:test|check|oracle)\.(?:cc|cu|py))(?::(\w+))?`", line):
            text = tree.texts.get(PurePosixPath(name))
            if text is None:
                yield Finding(page, number, "conformance", f"there is no {name}")
            elif case and not re.search(rf"[(,] *{case}\)|def {case}\(", text):
                yield Finding(page, number, "conformance", f"{name} has no test {case}")


RULES = [layers, program_without_measuring, links_of_rooms, include_cycles, banned_calls,
         header_hygiene, cuda_headers, ratchets,
         assertion_floors, options_in_libraries, riddles, fragments, columns,
         prose_columns, measurement_words, design_commits, links, architecture, numbered_decisions,
         planted_bugs, unfinished, dead_headers, registered_tests, blobs,
         absolute_paths, request_fields, conformance]
