"""The runs of superinfer_tables.py: settings, workloads, `causeway simulate` and what it reports.

Rates, duration and KV in host memory are those of the paper's published driver where they fit. Whoever adds a run says its settings by the words of the command line."""

import hashlib
import json
import math
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

PAPER_LAGS = ("--rotary-displaces-early", "all", "--rotary-ahead-share", "0",
              "--rotary-late-after", "0")
# Rows of the tables: name, policy and its options.
POLICIES = {
    "rotary": ("rotary",),
    "rotary, unanswered displace": ("rotary", "--rotary-displaces-early", "unanswered"),
    "paper's lags": ("rotary", *PAPER_LAGS),
    "paper's lags, α 1": ("rotary", *PAPER_LAGS, "--rotary-alpha", "1"),
    "fcfs": ("fcfs",),
    "waiting-first": ("waiting-first",),
    "swapped-first": ("swapped-first",),
    "artifact": ("artifact",),
    "sjf-oracle": ("sjf-oracle",),
    "ranked": ("ranked",),
    "past-future": ("past-future",),
}
# KV's link in GB/s, in and out, where it is not the profile's.
LINKS = {
    "DuplexKV (179 in, 181 out)": None,
    "PCIe 5 x16 (46, 46)": (46, 46),
    "by layers (5.1, 5.1)": (5.1, 5.1),
}
GH200_144 = {"name": "gh200-144gb-link", "description": "GH200 with another link for KV",
             "tflops": 780, "memory_gb_per_s": 4650, "memory_gb": 144, "link_gb_per_s": 400,
             "step_overhead_us": 300}


class Failed(Exception):
    pass


@dataclass(frozen=True)
class Setting:
    """A machine, a model and a workload: what the rows of a table have in common."""
    name: str
    hardware: str
    config: str  # below configs/
    lengths: str  # a trace below traces/, or "chats"
    kv: str
    kv_host: str
    seconds: float
    running: int
    tokens: int  # of a step at the most
    rates: tuple

    def shortened(self):
        return replace(self, seconds=self.seconds / 4, rates=self.rates[::3])


SHAREGPT = "sharegpt/sharegpt-qwen3-30b-a3b-300-sps10.jsonl"
ARXIV = "arxiv-lengths/lengths.csv"
SETTINGS = {
    "overload": Setting("Llama-3.1-8B, chats, 12 GB of KV", "gh200", "Llama-3.1-8B.json", "chats",
                        "12GB", "200GB", 40, 1024, 2048, (35, 70, 105, 140)),
    "qwen": Setting("Qwen3-32B, ShareGPT", "gh200-144gb", "Qwen3-32B.json", SHAREGPT,
                    "60GB", "400GB", 120, 4096, 768, (5, 6, 6.5, 7, 8)),
    "qwen-minute": Setting("Qwen3-32B, ShareGPT", "gh200-144gb", "Qwen3-32B.json", SHAREGPT,
                           "60GB", "400GB", 60, 4096, 768, (7, 8, 9, 10)),
    "qwen-third": Setting("Qwen3-32B, ShareGPT, 20 GB of KV", "gh200-144gb", "Qwen3-32B.json",
                          SHAREGPT, "20GB", "400GB", 60, 4096, 768, (4, 5, 6, 7)),
    "mixtral-third": Setting("Mixtral-8x7B, ShareGPT, 12 GB of KV", "gh200-144gb",
                             "Mixtral-8x7B-v0.1.json", SHAREGPT, "12GB", "400GB", 60, 4096, 2048,
                             (5, 6, 7, 8)),
    "mixtral-papers": Setting("Mixtral-8x7B, arXiv, 12 GB of KV", "gh200-144gb",
                              "Mixtral-8x7B-v0.1.json", ARXIV, "12GB", "400GB", 60, 4096, 2048,
                              (5, 6, 7, 8)),
    "qwen-chats": Setting("Qwen3-32B, chats", "gh200-144gb", "Qwen3-32B.json", "chats",
                          "60GB", "400GB", 120, 4096, 768, (20,)),
    "llama-chats": Setting("Llama-3.1-8B, chats", "gh200-144gb", "Llama-3.1-8B.json", "chats",
                           "110GB", "400GB", 120, 4096, 2048, (60,)),
}


@dataclass(frozen=True)
class Run:
    setting: Setting
    rate: float
    policy: str
    options: tuple = ()  # further ones of the command line
    link: tuple = ()  # GB/s in and out

    def words(self):
        """The command's options, but for those that name files."""
        s = self.setting
        policy, *its = POLICIES[self.policy]
        return ["--kv-cache-memory-bytes", s.kv, "--kv-host-memory-bytes", s.kv_host,
                "--max-num-seqs", str(s.running), "--max-num-batched-tokens", str(s.tokens),
                "--preemption", "rotate", "--scheduling-policy", policy, *its, *self.options]

    def key(self):
        """Names its report: another setting, another name."""
        s = self.setting
        said = json.dumps([s.hardware, s.config, s.lengths, s.seconds, self.rate, self.link,
                           self.words()])
        return hashlib.sha256(said.encode()).hexdigest()[:20]


class Random:
    """base/random.h: the same numbers, so that workloads are those of the tests."""
    MASK = (1 << 64) - 1

    def __init__(self, seed):
        self.state = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & self.MASK
            self.state.append(self.mix(seed))

    @classmethod
    def mix(cls, x):
        x = (x + 0x9E3779B97F4A7C15) & cls.MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & cls.MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & cls.MASK
        return x ^ (x >> 31)

    @classmethod
    def rotate(cls, x, k):
        return ((x << k) | (x >> (64 - k))) & cls.MASK

    def bits(self):
        s = self.state
        result = (self.rotate((s[0] + s[3]) & self.MASK, 23) + s[0]) & self.MASK
        t = (s[1] << 17) & self.MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = self.rotate(s[3], 45)
        return result

    def uniform(self):
        return (self.bits() >> 11) * 2.0**-53

    def exponential(self, mean):
        return -mean * math.log1p(-self.uniform())

    def normal(self):
        radius = math.sqrt(-2.0 * math.log1p(-self.uniform()))
        return radius * math.cos(6.283185307179586 * self.uniform())


def chats(per_second, for_seconds, seed=5):
    """(arrival in s, prompt, output) as `chats` of simulate/rotation_test.cc: prompts of 220 tokens
    and answers of 345 in the mean."""
    random = Random(seed)

    def length(mean, spread, most):
        return int(min(max(math.exp(mean + spread * random.normal()), 2.0), most))

    arrivals, at = [], 0.0
    while at < for_seconds:
        arrivals.append((at, length(4.8, 1.1, 2000), length(5.6, 0.7, 1500)))
        at += random.exponential(1 / per_second)
    return arrivals


def as_trace(arrivals):
    """In the format of Azure's traces."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for at, prompt, output in arrivals:
        ticks = round(at * 1e7)
        minutes, ticks = divmod(ticks, 60 * 10**7)
        lines.append(f"2026-01-01 00:{minutes:02}:{ticks // 10**7:02}.{ticks % 10**7:07},"
                     f"{prompt},{output}")
    return "\n".join(lines) + "\n"


class Simulator:
    """Runs what it is asked for, one after the other; keeps the reports in a folder."""

    def __init__(self, binary, data, kept, say=print):
        self.binary, self.data, self.kept, self.say = binary, data, kept, say
        kept.mkdir(parents=True, exist_ok=True)

    def report(self, run):
        path = self.kept / f"{run.key()}.json"
        if not path.exists():
            began = time.monotonic()
            self.simulate(run, path)
            self.say(f"{run.setting.name}, {run.rate:g}/s, {run.policy} {' '.join(run.options)}"
                     f"{run.link or ''}: {time.monotonic() - began:.0f} s")
        return json.loads(path.read_text(encoding="utf-8"))

    def simulate(self, run, path):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            unfinished = path.with_suffix(".part")
            command = [str(self.binary), "simulate", "--hardware", self.hardware(run, folder),
                       "--model-config", str(self.data / "configs" / run.setting.config),
                       *self.workload(run, folder), *run.words(), "--json", str(unfinished)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
            unfinished.rename(path)

    @staticmethod
    def hardware(run, folder):
        if not run.link:
            return run.setting.hardware
        file = folder / "hardware.json"
        file.write_text(json.dumps(GH200_144 | {"kv_in_gb_per_s": run.link[0],
                                                "kv_out_gb_per_s": run.link[1]}), encoding="utf-8")
        return str(file)

    def workload(self, run, folder):
        setting = run.setting
        if setting.lengths != "chats":
            return ["--trace", str(self.data / "traces" / setting.lengths), "--request-rate",
                    f"{run.rate:g}", "--num-prompts", str(round(run.rate * setting.seconds))]
        file = folder / "chats.csv"
        file.write_text(as_trace(chats(run.rate, setting.seconds)), encoding="utf-8")
        return ["--trace", str(file), "--num-prompts", "0"]
