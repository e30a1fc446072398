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
    others = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = f"{PRELOAD_LIBRARY}:{others}" if others else str(PRELOAD_LIBRARY)
    _execute(command[0], command)


def _execute(program, arguments):
    try:
        os.execvp(program, arguments)
    except OSError as error:
        print(f"error: {program}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
