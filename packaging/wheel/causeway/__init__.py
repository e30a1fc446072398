"""The program `causeway` and its preload library, where pip has put them.

A console command starts the program in place of this interpreter: signals, exit status and standard
streams are its own.
"""

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
PROGRAM = _HERE / "bin" / "causeway"
PRELOAD_LIBRARY = _HERE / "lib" / "libcauseway-preload.so"


def main():
    """`causeway …`."""
    _execute(str(PROGRAM), ["causeway", *sys.argv[1:]])


def preload():
    """`causeway-preload PROGRAM …`: large copies of a CUDA program over the links of all GPUs."""
    command = sys.argv[1:]
    if not command or command[0] in ("-h", "--help"):
        print(f"usage: causeway-preload PROGRAM [ARGUMENT...]   (preloads {PRELOAD_LIBRARY})")
        sys.exit(0 if command else 2)
    library = str(PRELOAD_LIBRARY)
    if len(library.split()) > 1:
        # The linker cuts LD_PRELOAD at spaces, and LD_LIBRARY_PATH not.
        library = PRELOAD_LIBRARY.name
        _put_first("LD_LIBRARY_PATH", str(PRELOAD_LIBRARY.parent))
    _put_first("LD_PRELOAD", library)
    _execute(command[0], command)


def _put_first(variable, value):
    others = os.environ.get(variable)
    os.environ[variable] = f"{value}:{others}" if others else value


def _execute(program, arguments):
    try:
        os.execvp(program, arguments)
    except OSError as error:
        print(f"error: {program}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
