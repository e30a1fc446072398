"""Parts side by side: lanes that run a part at a time, longest first, on GPUs that have room for them."""

import threading
from dataclasses import dataclass, field


@dataclass
class Gpu:
    name: str  # as CUDA_VISIBLE_DEVICES names it
    gib: float  # what parts may take together
    promised: float = 0
    parts: int = 0


@dataclass
class Place:
    """Where a part runs. `gpus`: those it may use; none when there is nothing to choose between."""
    phase: str
    lane: int = 0
    gpus: list = field(default_factory=list)

    def environment(self):
        return {"CUDA_VISIBLE_DEVICES": self.gpus[0].name} if len(self.gpus) == 1 else {}


class Gpus:
    """What of each GPU's memory is promised to running parts. Not locked: Lanes does that."""

    def __init__(self, gpus=()):
        self.gpus = list(gpus)

    def reserve(self, part, anyway=False):
        """The GPUs for the part, or None while they lack the memory. `anyway`: nothing else runs."""
        if part.all_gpus or len(self.gpus) < 2:
            wanted = self.gpus
        else:
            wanted = [min(self.gpus, key=lambda gpu: (gpu.promised + part.gpu_gib > gpu.gib,
                                                      gpu.parts, gpu.promised))]
        if not anyway and any(gpu.promised + part.gpu_gib > gpu.gib for gpu in wanted):
            return None
        for gpu in wanted:
            gpu.promised += part.gpu_gib
            gpu.parts += 1
        return wanted

    def release(self, part, reserved):
        for gpu in reserved:
            gpu.promised -= part.gpu_gib
            gpu.parts -= 1

    def choice(self, reserved):
        """Those of `reserved` when that says something: not all there are."""
        return reserved if len(reserved) < len(self.gpus) else []


class Lanes:
    """Runs `parts`, at most `count` at a time; `one(part, place)` gives a part's rows."""

    def __init__(self, phase, parts, count, one, gpus):
        self.phase = phase
        self.one = one
        self.gpus = gpus
        # One lane keeps the order in which the parts are given.
        self.waiting = sorted(parts, key=lambda part: -part.typical) if count > 1 else list(parts)
        self.running = 0
        self.changed = threading.Condition()
        self.rows = {}  # name → rows
        self.threads = [threading.Thread(target=self._parts_of, args=(lane,))
                        for lane in range(min(count, len(self.waiting)))]

    def run(self):
        """name → rows of every part."""
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()
        return self.rows

    def _parts_of(self, lane):
        while (taken := self._take()) is not None:
            part, reserved = taken
            try:
                place = Place(self.phase, lane, self.gpus.choice(reserved))
                self.rows[part.name] = self.one(part, place)
            finally:
                with self.changed:
                    self.gpus.release(part, reserved)
                    self.running -= 1
                    self.changed.notify_all()

    def _take(self):
        """(part, its GPUs), or None at the end: the first that finds room."""
        with self.changed:
            while self.waiting:
                for part in self.waiting:
                    reserved = self.gpus.reserve(part, anyway=self.running == 0)
                    if reserved is not None:
                        self.waiting.remove(part)
                        self.running += 1
                        return part, reserved
                self.changed.wait()
            return None
