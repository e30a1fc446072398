#!/usr/bin/env python3
"""Makes a wheel of a folder: make_wheel.py TREE VERSION PLATFORM OUT

TREE holds the package `causeway/` and, if it has any, `data/` (installed below sys.prefix) and
`licenses/`. PLATFORM is the tag, e.g. manylinux_2_36_x86_64. Same files, same bytes: times are those
of SOURCE_DATE_EPOCH. Prints the wheel's path.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

METADATA = """\
Metadata-Version: 2.1
Name: causeway
Version: {version}
Summary: Serves a catalogue of language models from host memory, behind the OpenAI API
License: Apache-2.0
Requires-Python: >=3.8
Provides-Extra: cuda
Requires-Dist: nvidia-cublas >=13,<14 ; extra == 'cuda'
Description-Content-Type: text/markdown

The program `causeway` with every library that it needs beyond glibc {glibc} and libstdc++ of GCC 12,
and `causeway-preload`, for the large copies of any CUDA program. `causeway serve --help` tells the
rest. GPUs (Hopper) need NVIDIA's driver and cuBLAS of CUDA 13: `pip install causeway[cuda]`.
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: make_wheel
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""
ENTRY_POINTS = """\
[console_scripts]
causeway = causeway:main
causeway-preload = causeway:preload
"""


def files_of(tree, version, platform):
    """(name in the wheel, bytes, whether it is executed), sorted by name."""
    information = f"causeway-{version}.dist-info"
    places = {"causeway": "causeway", "data": f"causeway-{version}.data/data",
              "licenses": f"{information}/licenses"}
    glibc = ".".join(platform.split("_")[1:3])
    files = [(f"{information}/METADATA", METADATA.format(version=version, glibc=glibc).encode(), False),
             (f"{information}/WHEEL", WHEEL.format(platform=platform).encode(), False),
             (f"{information}/entry_points.txt", ENTRY_POINTS.encode(), False)]
    for folder, place in places.items():
        for path in sorted((tree / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = f"{place}/{path.relative_to(tree / folder)}"
                files.append((name, path.read_bytes(), os.access(path, os.X_OK)))
    return sorted(files)


def make(tree, version, platform, out):
    wheel = out / f"causeway-{version}-py3-none-{platform}.whl"
    record_name = f"causeway-{version}.dist-info/RECORD"
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")), 315532800))[:6]
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def write(name, content, executed):
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (0o100755 if executed else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=9)

        for name, content, executed in files_of(tree, version, platform):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
            write(name, content, executed)
        write(record_name, ("".join(record) + f"{record_name},,\n").encode(), False)
    return wheel


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    print(make(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])))
