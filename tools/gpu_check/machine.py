"""Where the programs, libraries and data are, and what the machine is."""

import concurrent.futures
import glob
import importlib.util
import json
import lzma
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from lanes import Gpu

ROOT = Path(__file__).resolve().parents[2]
GPU_SHARE = 0.9
CUDA_HOME = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


def output_of(*command):
    """Its standard output, stripped; "" when it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def unpack(bundle, folder):
    """Programs, libraries and the client's wheels of a bundle, into `folder`."""
    for kind in ("bin", "lib", "python"):
        (folder / kind).mkdir()
    packed = [*bundle.glob("bin/*.xz"), *bundle.glob("lib/*.xz")]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda path: _inflate(path, folder / path.parent.name / path.stem), packed))
    for wheel in bundle.glob("python/*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "python")


def _inflate(path, target):
    with lzma.open(path) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out)
    target.chmod(0o755)


class Places:
    """A bundle (its folder has bundle.json) or a build in place."""

    def __init__(self, build, folder):
        """`folder`: empty; a bundle is unpacked there."""
        manifest = ROOT / "bundle.json"
        self.manifest = json.loads(manifest.read_text(encoding="utf-8")) if manifest.exists() else None
        self.lib = self.python = None
        if self.manifest:
            unpack(ROOT, folder)
            self.bin, self.lib, self.python = (folder / name for name in ("bin", "lib", "python"))
        else:
            self.bin = Path(build or ROOT / "build/release").resolve() / "bin"
        data = ROOT / "data" if self.manifest else os.environ.get("CAUSEWAY_TEST_DATA")
        self.data = Path(data) if data else None

    def program(self, name):
        return self.bin / name

    def library(self, name):
        """A library of ours, beside the programs or where the build puts it; None without."""
        build = self.bin.parent
        places = (self.bin / name, build / "tests/e2e" / name, build / "lib" / name)
        return next((path for path in places if path.exists()), None)

    def programs(self, pattern):
        return sorted(Path(path) for path in glob.glob(str(self.bin / pattern)))

    def environment(self):
        """What every program is run with."""
        folders = [str(self.lib)] if self.lib else []
        folders += cuda_libraries()
        if os.environ.get("LD_LIBRARY_PATH"):
            folders.append(os.environ["LD_LIBRARY_PATH"])
        made = {"LD_LIBRARY_PATH": ":".join(folders), "PYTHONUNBUFFERED": "1",
                "CAUSEWAY_BINARY": str(self.program("causeway"))}
        if self.data:
            made["CAUSEWAY_TEST_DATA"] = str(self.data)
        return made

    def client_environment(self, environment):
        """Of the `openai` client, which the bundle has beside it; a build in place has a .venv."""
        if self.python is None:
            return environment
        paths = [str(self.python), os.environ.get("PYTHONPATH")]
        return {**environment, "PYTHONPATH": ":".join(filter(None, paths))}

    def client_python(self):
        own = ROOT / ".venv/bin/python"
        return str(own) if self.manifest is None and own.exists() else sys.executable

    def commit(self):
        if self.manifest:
            return self.manifest["commit"]
        commit = output_of("git", "-C", str(ROOT), "rev-parse", "HEAD") or "unknown"
        changed = output_of("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
        return commit + (" and changes" if changed else "")


def cuda_libraries():
    """Folders with cuBLASLt, where the dynamic linker does not know one by itself."""
    if "libcublasLt.so.13" in output_of("ldconfig", "-p"):
        return []
    candidates = [CUDA_HOME / "lib64", CUDA_HOME / "targets/x86_64-linux/lib"]
    candidates += [Path(folder, "nvidia/cu13/lib") for folder in sys.path if folder]
    return [str(folder) for folder in candidates if (folder / "libcublasLt.so.13").exists()][:1]


def missing_libraries(program, environment):
    """Names of shared libraries that the program would not find."""
    try:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **environment}, check=False)
    except OSError:
        return []
    return [line.split()[0] for line in done.stdout.splitlines() if "not found" in line]


def sanitizer():
    """compute-sanitizer's path, or None."""
    beside = CUDA_HOME / "bin/compute-sanitizer"
    return shutil.which("compute-sanitizer") or (str(beside) if beside.exists() else None)


def why_no_sanitizer(tool, kind, canary, environment):
    """"" when the tool finds the errors that the canary plants; else the reason for not using it."""
    if tool is None:
        return "compute-sanitizer is not here"
    if not canary.exists():
        return f"{canary.name}, which shows that the tool works, is not in {canary.parent.name}/"
    try:
        done = subprocess.run([tool, "--tool", kind, str(canary), kind], capture_output=True,
                              text=True, timeout=60, env={**os.environ, **environment}, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"compute-sanitizer does not work here: {error}"
    if re.search(r"SUMMARY: [1-9]", done.stdout):
        return ""
    said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
    return f"{kind} does not find a planted error here; it says: {said[-1][:80]}"


def missing_modules(names):
    """Those that this Python cannot import."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def imports(python, name, environment):
    """Whether that Python can."""
    try:
        done = subprocess.run([python, "-c", f"import {name}"], capture_output=True, timeout=60,
                              env={**os.environ, **environment}, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def processors():
    """That this process may use."""
    return len(os.sched_getaffinity(0))


def host_gib():
    """Memory that is available; 0 when the machine does not say."""
    try:
        found = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    except OSError:
        return 0
    return int(found.group(1)) / (1 << 20) if found else 0


def gpus():
    """Those that programs see, each with the share of its free memory that parts may take together."""
    free = output_of("nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits")
    free = [int(line) / 1024 for line in free.splitlines() if line.strip().isdigit()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(i) for i in range(len(free))] if visible is None else visible.split(",")
    # Which entry is which GPU of nvidia-smi is not known: the least holds for each.
    gib = GPU_SHARE * min(free, default=math.inf)
    return [Gpu(name.strip(), gib) for name in names if name.strip()]


def facts(places, environment):
    gpus = output_of("nvidia-smi", "--query-gpu=name,memory.total,driver_version",
                     "--format=csv,noheader").splitlines()
    try:
        version = subprocess.run([str(places.program("causeway")), "--version"], text=True,
                                 capture_output=True, timeout=60, check=False,
                                 env={**os.environ, **environment}).stdout.strip()
    except OSError as error:
        version = str(error)
    return {"gpus": gpus, "driver": gpus[0].rsplit(",", 1)[1].strip() if gpus else None,
            "cpus": os.cpu_count(), "processor": _processor(), "kernel": platform.release(),
            "python": platform.python_version(), "program": version}


def _processor():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()
