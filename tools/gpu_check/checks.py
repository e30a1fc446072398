"""What is checked, in order: GPU tests, sanitizers, logits, the OpenAI suite, figures."""

import shutil
import sys
import tempfile

import machine
import needs
import parsers
from part import Part

# × floor at most, of `causeway bench model`: (row, first word of its shape) → bar.
LLAMA_BARS = {("decode", "batch 1"): 1.20, ("decode", "batch 8"): 1.15,
              ("decode", "batch 32"): 1.15, ("decode", "batch 128"): 1.15,
              ("prefill", "8192 tokens"): 1.45}
MOE_BARS = {("decode", "batch 1"): 1.5, ("decode", "batch 32"): 1.5}

SHAREGPT_BAR = 1.35
NOT_OVERLAPPED_MAX = 0.03  # of a decode step
LOAD_DISK_BYTES = 20e9  # free, for the files of an 8B model, or of a catalogue
FLEET_GIB = 104  # of host memory, for a catalogue of 93 GB and what serves it
FLEET_BASELINES = ("--switching reload", "--switching sleep", "--placement shared",
                   "--placement random")

FAMILIES = ("gemma2", "gemma3_text", "llama", "mistral", "mixtral", "phi3", "qwen2", "qwen3",
            "qwen3_moe")
# Tests without generated shapes.
SEEDLESS = ("device", "cuda_fault", "cuda_graphs", "late", "launch", "preload", "preload_shared",
            "wait")
# They take all memory, divide what is free, hang or fault.
ALONE = ("cuda_border", "cuda_slices", "device", "cuda_graphs", "cuda_fault", "transfer", "wait")
# Cases that keep a quick run short; a full run takes each program's own number.
QUICK_ARGUMENTS = {"gemm": ["--cases", "60"], "hybrid_gemm": ["--cases", "40"],
                   "home_gemm": ["--cases", "40"],
                   "attention": ["--cases", "5"], "attention_plain": ["--cases", "5"]}
# Small enough for compute-sanitizer, which runs a kernel some hundred times slower.
SANITIZER_ARGUMENTS = {"attention": ["--small"], "moe": ["--small"], "sampling": ["--small"],
                       "gemm": ["--cases", "20"], "hybrid_gemm": ["--cases", "14"],
                       "home_gemm": ["--cases", "4"],
                       "prepare": [], "rms_norm": [], "rope": [], "activation": [], "embedding": []}
# racecheck looks at every access and every try of a wait: fewer cases, of all kinds all the same.
RACECHECK_ARGUMENTS = {"gemm": ["--cases", "8"], "home_gemm": ["--cases", "2"]}
RACECHECK_QUICK = ("rms_norm", "rope", "activation", "embedding")
ALL_GPUS = ("preload", "preload_shared")  # tests that use each GPU they see
PROGRAM_GPUS = 2  # that programs see: each process makes contexts on all, which takes seconds with four
LIBRARY_TOO = ("gemm", "hybrid_gemm", "home_gemm")  # tests that also run kernels of cuBLAS, which race by design


class Checks:
    """Makes the parts for one run. `quick`: fewer cases and figures. `stress_seconds`: of random
    transfers."""

    def __init__(self, places, environment, quick, seed, stress_seconds=10):
        self.places = places
        self.environment = environment
        self.quick = quick
        self.seed = seed
        self.stress_seconds = stress_seconds

    def parts(self):
        return (self.logits() + self.openai_suite() + self.gpu_tests() + self.sanitizers()
                + self.figures())

    def part(self, name, program, arguments, seconds, rows, **more):
        """A part that runs a program of ours; skipped with the reason when it cannot."""
        path = self.places.program(program)
        missing = more.pop("missing", "")
        if not missing and not path.exists():
            missing = f"{program} is not in {self.places.bin.name}/"
        if not missing:
            lost = machine.missing_libraries(path, self.environment)
            missing = f"{program} needs {', '.join(lost)}" if lost else ""
        more.setdefault("environment", self.environment)
        more.setdefault("typical", needs.SECONDS.get(name, needs.OTHER_SECONDS))
        more.setdefault("gpu_gib", needs.GPU_GIB.get(name, needs.OTHER_GPU_GIB))
        prefix = more.pop("prefix", [])
        return Part(name, [*prefix, path, *arguments], seconds, rows, missing=missing, **more)

    def gpu_tests(self):
        made = []
        for path in self.places.programs("*_gpu_test"):
            short = path.name.removesuffix("_gpu_test")
            arguments = [] if short in SEEDLESS else ["--seed", str(self.seed)]
            arguments += QUICK_ARGUMENTS.get(short, []) if self.quick else []
            limit = 60 if self.quick else 150
            if short == "transfer":
                arguments += ["--seconds", str(self.stress_seconds)]
                limit += self.stress_seconds
            made.append(self.part(path.name, path.name, arguments, limit,
                                  parsers.test_rows(path.name), alone=short in ALONE,
                                  all_gpus=short in ALL_GPUS))
        return made or [self.part("gpu tests", "gemm_gpu_test", [], 60,
                                  parsers.test_rows("gpu tests"))]

    def sanitizers(self):
        tool, made = machine.sanitizer(), []
        canary = self.places.program("sanitizer_canary")
        missing = {kind: machine.why_no_sanitizer(tool, kind, canary, self.environment)
                   for kind in ("memcheck", "racecheck")}
        for short, arguments in SANITIZER_ARGUMENTS.items():
            for kind in ("memcheck", "racecheck"):
                if self.quick and kind == "racecheck" and short not in RACECHECK_QUICK:
                    continue
                name = f"{kind} {short}"
                own_only = kind == "racecheck" and short in LIBRARY_TOO
                prefix = [tool or "compute-sanitizer", "--tool", kind, "--error-exitcode",
                          str(parsers.FOUND)]
                if kind == "racecheck":
                    arguments = RACECHECK_ARGUMENTS.get(short, arguments)
                made.append(self.part(name, f"{short}_gpu_test",
                                      [*arguments, "--seed", str(self.seed)],
                                      60 if self.quick else 260, parsers.sanitizer_rows(name, own_only),
                                      prefix=prefix, missing=missing[kind]))
        return made

    def logits(self):
        lost = machine.missing_modules(("torch", "transformers", "numpy"))
        missing = f"python3 has no {', '.join(lost)}" if lost else ""
        made = []
        for family in FAMILIES:
            name = f"logits {family}"
            arguments = ["--family", family, "--causeway", self.places.program("causeway"),
                         "--seed", str(self.seed), "--json", "{json}"]
            script = machine.ROOT / "tests/model/transformers_check.py"
            made.append(self.part(name, "cuda_forward_dump", arguments, 100 if self.quick else 240,
                                  parsers.comparison_rows(name), missing=missing, files=("json",),
                                  prefix=[sys.executable, script, "--forward-dump"]))
        return made

    def openai_suite(self):
        environment = {**self.places.client_environment(self.environment),
                       "CAUSEWAY_TEST_DEVICE": "cuda"}
        clients = self.openai_clients(environment)
        server = self.part("end to end", "causeway", [], 150, parsers.unittest_rows("end to end"),
                           environment=environment, all_gpus=True)
        server.command = [sys.executable, machine.ROOT / "tests/e2e/e2e_test.py", "-v"]
        preload = self.preload_programs()
        if self.quick:
            return [*clients, preload]
        return [*clients, server, self.gpu_faults(), self.switch_faults(), self.catalogue(),
                preload]

    def openai_clients(self, environment):
        tests, python = machine.ROOT / "tests", self.places.client_python()
        here = machine.imports(python, "openai", environment)
        made = []
        for name, file in (("openai client", "openai_test.py"),
                           ("openai responses", "openai_responses_test.py")):
            part = self.part(name, "causeway", [], 120, parsers.unittest_rows(name),
                             environment=environment, all_gpus=True,
                             missing="" if here else "python3 has no openai")
            part.command = [python, tests / "e2e/with_server.py", python, tests / "clients" / file]
            made.append(part)
        return made

    def gpu_faults(self):
        """A server whose GPU is full, faulty or not there."""
        driver = self.places.library("libfaulty_driver.so")
        environment = {**self.environment, "CAUSEWAY_FAULTY_DRIVER": str(driver or "")}
        part = self.part("gpu faults", "causeway", [], 150, parsers.unittest_rows("gpu faults"),
                         environment=environment, alone=True)
        part.command = [sys.executable, machine.ROOT / "tests/e2e/gpu_faults_test.py", "-v"]
        return part

    def switch_faults(self):
        """A server that is told to end, or is killed, while its models take turns."""
        part = self.part("switch faults", "causeway", [], 150,
                         parsers.unittest_rows("switch faults"), alone=True,
                         environment={**self.environment, "CAUSEWAY_TEST_DEVICE": "cuda"})
        part.command = [sys.executable, machine.ROOT / "tests/e2e/switch_faults_test.py", "-v"]
        return part

    def catalogue(self):
        """Tiny models that the cache does not hold, on slices, in a process of their own, killed."""
        part = self.part("catalogue", "causeway", [], 120, parsers.unittest_rows("catalogue"),
                         environment={**self.environment, "CAUSEWAY_TEST_DEVICE": "cuda"})
        part.command = [sys.executable, machine.ROOT / "tests/e2e/catalogue_test.py", "-v"]
        return part

    def preload_programs(self):
        """Unmodified CUDA programs without and with the preload library."""
        library = self.places.library("libcauseway-preload.so")
        gpus = ",".join(gpu.name for gpu in machine.gpus()[:PROGRAM_GPUS])
        environment = {**self.environment, **({"CUDA_VISIBLE_DEVICES": gpus} if gpus else {})}
        part = self.part("preload programs", "preload_runtime_static_legacy", [],
                         80 if self.quick else 175, parsers.unittest_rows("preload programs"),
                         environment=environment, alone=True)
        part.command = [sys.executable, machine.ROOT / "tests/preload/run.py", "--programs",
                        self.places.bin, "--seed", self.seed,
                        "--limit", 40 if self.quick else 145,
                        "--jobs", max(2, min(16, machine.processors() // 3)),
                        *(["--library", library] if library else []),
                        *(["--quick"] if self.quick else [])]
        return part

    def model_figures(self, config, bars, arguments):
        name = f"bench {config}"
        file = self.places.data / "configs" / f"{config}.json" if self.places.data else None
        missing = "" if file and file.exists() else f"no {config}.json: CAUSEWAY_TEST_DATA is unset"
        return self.part(name, "causeway",
                         ["bench", "model", "--model-config", file, "--random-weights", *arguments,
                          "--json", "{json}"],
                         120, parsers.model_rows(name, bars), files=("json",), missing=missing,
                         alone=True, is_test=False)

    def llama(self):
        """The shape that figures are measured with, and why it is not there."""
        file = self.places.data / "configs/Llama-3.1-8B.json" if self.places.data else None
        return file, "" if file and file.exists() else "no Llama-3.1-8B.json: CAUSEWAY_TEST_DATA is unset"

    def llama_on_sharegpt(self):
        """The same with recorded requests."""
        data = self.places.data
        files = [data / "configs/Llama-3.1-8B.json",
                 data / "traces/sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl"] if data else []
        lost = [file.name for file in files if not file.exists()]
        missing = "CAUSEWAY_TEST_DATA is unset" if not files else f"no {lost[0]}" if lost else ""
        return *(files or ("", "")), missing

    def engine_figures(self):
        """The engine on recorded requests; shapes of Llama-3.1-8B."""
        config, trace, missing = self.llama_on_sharegpt()
        return self.bench("bench engine", "causeway",
                          ["bench", "engine", "--model-config", config, "--trace", trace,
                           "--num-prompts", "300", "--runs", "1", "--batch", "1,8,32,128",
                           "--json", "{json}"],
                          150, parsers.engine_rows("bench engine", SHAREGPT_BAR, NOT_OVERLAPPED_MAX),
                          files=("json",), missing=missing)

    def switch_figures(self):
        """Switching between models of Llama-3.1-8B's shape, with room for two of three."""
        file, missing = self.llama()
        return self.bench("bench switch", "causeway",
                          ["bench", "switch", "--model-config", file, "--json", "{json}"], 120,
                          parsers.figure_rows("bench switch"), files=("json",), missing=missing)

    def reload_figures(self):
        """A switch beside a full reload and beside sleep and wake; models of Llama-3.2-3B's shape."""
        data = self.places.data
        file = data / "configs/Llama-3.2-3B-Instruct.json" if data else None
        missing = "" if file and file.exists() else (
            "no Llama-3.2-3B-Instruct.json: CAUSEWAY_TEST_DATA is unset")
        return self.bench("bench reload", "causeway",
                          ["bench", "switch", "--model-config", file, "--baselines", "--rounds", "3",
                           "--neighbour-batch", "0", "--json", "{json}"], 90,
                          parsers.figure_rows("bench reload"), files=("json",), missing=missing)

    def stream_figures(self):
        """Half of a model of Llama-3.1-8B's shape streamed, beside another that is cached."""
        file, missing = self.llama()
        return self.bench("bench stream", "causeway",
                          ["bench", "stream", "--model-config", file, "--model-config", file,
                           "--resident", "0.5", "--rounds", "3", "--json", "{json}"], 120,
                          parsers.figure_rows("bench stream"), files=("json",), missing=missing)

    def no_disk(self):
        """Why files of a large model cannot be written; empty: they can."""
        free = shutil.disk_usage(tempfile.gettempdir()).free
        return "" if free > LOAD_DISK_BYTES else (
            f"its files take 16 GB, and {tempfile.gettempdir()} has {free / 1e9:.0f} GB")

    def fleet(self, name, seconds, *arguments):
        """A catalogue of 87 models that are asked in Zipf's order."""
        memory = machine.host_gib()
        missing = self.no_disk() or ("" if memory > FLEET_GIB else
                                     f"it takes {FLEET_GIB} GiB of memory; {memory:.0f} are available")
        part = self.bench(name, "causeway", [], seconds, parsers.figure_rows(name), files=("json",),
                          missing=missing,
                          environment={**self.environment, "CAUSEWAY_TEST_DEVICE": "cuda"})
        part.command = [sys.executable, machine.ROOT / "tests/e2e/fleet_replay.py", *arguments,
                        "--json", "{json}"]
        return part

    def fleet_figures(self):
        """On a whole GPU and on two slices of it, beside the simulator; how long a worker that is
        killed takes to serve again, and what it costs; what others do with the same slices; and a
        third of the models mixtures of experts, also on sevenths."""
        ways = [word for options in FLEET_BASELINES for word in ("--baseline", options)]
        profile = "h200" if "H200" in machine.output_of("nvidia-smi", "-L") else "h100"
        return [self.fleet("fleet", 150, "--slices", "all", "2x56", "--simulated", profile),
                self.fleet("worker restart", 90, "--slices", "--kills", "3", "--seconds", "24"),
                self.fleet("worker", 100, "--slices", "all", "--baseline=--isolate"),
                self.fleet("baselines", 260, "--slices", "4x24", "--seconds", "10", *ways),
                self.fleet("experts", 200, "--kind", "mixed", "--models", "80", "--weights", "28gb",
                           "--slices", "all", "7x16", "--seconds", "10", "--simulated", profile)]

    def load_figures(self):
        """A server's start and loads beside a model that decodes; files of Llama-3.1-8B's shape."""
        file, missing = self.llama()
        missing = missing or self.no_disk()
        return self.bench("bench load", "causeway",
                          ["bench", "load", "--model-config", file, "--starts", "1", "--loads", "1",
                           "--json", "{json}"],
                          200, parsers.figure_rows("bench load"), files=("json",), missing=missing)

    def kv_figures(self):
        """KV that rotates between HBM and host memory, 2 GiB each way."""
        return self.bench("bench kv", "causeway", ["bench", "kv", "--bytes", "4GB", "--json", "{json}"],
                          90, parsers.figure_rows("bench kv"), files=("json",))

    def prefix_figures(self):
        """A prompt of 32,000 tokens that only host memory has; shapes of Llama-3.1-8B."""
        file, missing = self.llama()
        return self.bench("bench prefix", "causeway",
                          ["bench", "prefix", "--model-config", file, "--kv-host-memory-bytes", "16GB",
                           "--runs", "3", "--json", "{json}"], 60,
                          parsers.figure_rows("bench prefix"), files=("json",), missing=missing)

    def slo_figures(self):
        """Latency targets at more than HBM has room for, with and without rotation."""
        config, trace, missing = self.llama_on_sharegpt()
        return self.bench("bench slo", "causeway",
                          ["bench", "slo", "--model-config", config, "--trace", trace, "--rate", "12",
                           "--seconds", "10", "--kv-cache-memory-bytes", "6GB",
                           "--kv-host-memory-bytes", "16GB", "--scheduling-policy",
                           "fcfs,waiting-first,rotary", "--json", "{json}"],
                          110, parsers.slo_rows("bench slo"), files=("json",), missing=missing)

    def workload_figures(self, gpus):
        """Small models' sleep and wake, and a short prefix's KV, without and with the preload library."""
        library = self.places.library("libcauseway-preload.so")
        missing = ("" if library else "libcauseway-preload.so is not here") or (
            "" if gpus > 1 else "it needs a second GPU") or (
            "python3 has no torch" if machine.missing_modules(("torch",)) else "")
        part = self.bench("preload workloads", "causeway", [], 120,
                          parsers.workload_rows("preload workloads"), files=("json",),
                          missing=missing)
        part.command = [sys.executable, machine.ROOT / "tools/workloads/preload_workloads.py",
                        "--library", library, "--models", "Qwen3-0.6B", "Qwen3-4B", "--tokens", "16384",
                        "--rounds", "1", "--json", "{json}"]
        return part

    def bench(self, name, program, arguments, seconds, rows, **more):
        return self.part(name, program, arguments, seconds, rows, alone=True, is_test=False, **more)

    def figures(self):
        llama = self.model_figures("Llama-3.1-8B", LLAMA_BARS, [])
        # Some of what `causeway bench gemm` sweeps by itself, which takes half a minute.
        home = ["--sms", "132" if self.quick else "32,132",
                "--rows", "16,1024,10240" if self.quick else "1,16,256,1024,4096,10240",
                "--alpha-rows", "1024", "--runs", "5"]
        host = self.bench("bench gemm host", "causeway",
                          ["bench", "gemm", "--home", "host", *home, "--json", "{json}"], 100,
                          parsers.home_rows("bench gemm host"), files=("json",))
        topology = self.bench("topology", "causeway", ["topology", "--json"], 30,
                              parsers.topology_rows("topology"))
        transfer = self.bench("bench transfer", "causeway",
                              ["bench", "transfer", "--quick", "--what", "sizes,sets,gpus,cpu,memory",
                               "--json", "{json}"],
                              60, parsers.transfer_rows("bench transfer"), files=("json",))
        if self.quick:
            return [llama, host, topology]
        gpus = len(machine.gpus())
        peer = self.bench("bench gemm peer", "causeway",
                          ["bench", "gemm", "--home", "peer", "--json", "{json}"], 60,
                          parsers.home_rows("bench gemm peer"), files=("json",),
                          missing="" if gpus > 1 else "it needs a second GPU")
        return [llama, self.engine_figures(), self.switch_figures(), self.stream_figures(),
                self.model_figures("Qwen3-30B-A3B", MOE_BARS, ["--prefill", "2048"]),
                self.bench("bench gemm", "gemm_gpu_bench", ["--what", "read,weights,peak,chain"], 60,
                           parsers.gemm_rows("bench gemm")),
                self.bench("bench attention", "attention_gpu_bench", [], 60,
                           parsers.attention_rows("bench attention")),
                self.bench("bench sampling", "sampling_gpu_bench", [], 40,
                           parsers.sampling_rows("bench sampling")),
                self.bench("bench moe", "moe_gpu_bench", [], 40, parsers.moe_rows("bench moe")),
                topology, transfer, self.kv_figures(), self.prefix_figures(), self.slo_figures(),
                host, peer, self.workload_figures(gpus),
                self.load_figures(), self.reload_figures(), *self.fleet_figures()]
