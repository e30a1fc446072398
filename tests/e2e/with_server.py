#!/usr/bin/env python3
"""Runs a command against a real server: `with_server.py COMMAND…`.

The command sees CAUSEWAY_BASE_URL (…/v1), CAUSEWAY_MODEL and CAUSEWAY_API_KEY.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from running_server import TINY_MEMORY, RunningServer, make_model

API_KEY = "test-key"


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder) / "tiny")
        with RunningServer(model, "--api-key", API_KEY, "--max-queue", "64", *TINY_MEMORY) as server:
            environment = {**os.environ, "CAUSEWAY_BASE_URL": server.url + "/v1",
                           "CAUSEWAY_MODEL": "tiny", "CAUSEWAY_API_KEY": API_KEY}
            return subprocess.run(sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
