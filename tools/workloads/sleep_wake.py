#!/usr/bin/env python3
"""Sleep and wake of a model's weights, as vLLM's sleep mode, level 1, does: an unmodified PyTorch program.

    --how allocator   each allocation of the weights by one cudaMemcpy from or to pinned memory; asleep,
                      its GPU memory is given back, awake it is mapped again at the same address (vLLM)
    --how tensors     tensor.copy_(non_blocking=True) of each parameter, then one synchronisation

Pinned buffers are kept between rounds, as from the second sleep on. Every byte is verified: before each
sleep the weights get new contents, which must be back after waking, the GPU's memory having been
overwritten or given back in between. Prints a line a phase; --json FILE writes all times.
"""

import argparse
import json
import math

import torch

import gpu_memory
import shapes
import virtual_memory


class Tensors:
    """The model's parameters, each with a pinned copy of its shape."""

    def __init__(self, model, pool):
        self.weights = [torch.empty(shape, dtype=torch.bfloat16, device="cuda")
                        for _, shape in model.parameters()]
        self.copies = [pool.take(one.nbytes).view(torch.bfloat16).view(one.shape)
                       for one in self.weights]
        self.bytes = sum(one.nbytes for one in self.weights)

    def sleep(self):
        for weight, copy in zip(self.weights, self.copies):
            copy.copy_(weight, non_blocking=True)
        torch.cuda.synchronize()

    def lose(self):
        for weight in self.weights:
            weight.zero_()
        torch.cuda.synchronize()

    def wake(self):
        for weight, copy in zip(self.weights, self.copies):
            weight.copy_(copy, non_blocking=True)
        torch.cuda.synchronize()

    def close(self):
        self.weights = self.copies = None
        torch.cuda.empty_cache()


class Allocations:
    """The model's allocations, each with a pinned copy."""

    def __init__(self, model, pool):
        self.libraries = virtual_memory.Libraries()
        self.memory = [virtual_memory.Allocation(self.libraries, size)
                       for size in shapes.segments_of(model)]
        self.copies = [pool.take(one.size) for one in self.memory]
        self.weights = [one.tensor for one in self.memory]
        self.bytes = sum(one.size for one in self.memory)

    def sleep(self):
        for memory, copy in zip(self.memory, self.copies):
            self.libraries.memcpy(copy.data_ptr(), memory.address, memory.size)
            memory.unmap()

    def lose(self):
        """Sleep has given the memory back."""

    def wake(self):
        for memory, copy in zip(self.memory, self.copies):
            memory.map()
            self.libraries.memcpy(memory.address, copy.data_ptr(), memory.size)

    def close(self):
        self.weights = None
        for memory in self.memory:
            memory.close()


HOW = {"allocator": Allocations, "tensors": Tensors}


def measure(weights, repeat, what, first_seed):
    return gpu_memory.timed_rounds(weights.weights, {"sleep": weights.sleep, "wake": weights.wake},
                                   weights.lose, repeat, what, first_seed)


def pool_bytes(how, model):
    if how == "allocator":
        return sum(shapes.segments_of(model))
    return sum(-(-shapes.BF16 * math.prod(shape) // 512) * 512 for _, shape in model.parameters())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], help="default: " +
                        " ".join(shapes.SLEEP_MODELS))
    parser.add_argument("--how", choices=HOW, default="allocator")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def main():
    options = arguments()
    models = shapes.chosen(options.models, shapes.SLEEP_MODELS)
    fitting = [model for model in models if gpu_memory.room_for(pool_bytes(options.how, model))]
    for model in models:
        if model not in fitting:
            print(f"skip {model.name}: the GPU has no {model.weight_bytes() / 1e9:.1f} GB free")
    if not fitting:
        raise SystemExit("error: no model fits the GPU")
    pool = gpu_memory.PinnedPool(max(pool_bytes(options.how, model) for model in fitting))
    rows = []
    for model in fitting:
        pool.reset()
        weights = HOW[options.how](model, pool)
        times = measure(weights, options.repeat, model.name, 1 + len(rows))
        for phase, seconds in times.items():
            rows.append({"workload": f"sleep mode, {options.how}", "what": model.name, "phase": phase,
                         "bytes": weights.bytes, "seconds": seconds})
            best = min(seconds)
            print(f"{model.name} {phase}: {weights.bytes / 1e9:.2f} GB, best {1e3 * best:.1f} ms, "
                  f"{weights.bytes / best / 1e9:.1f} GB/s, verified", flush=True)
        weights.close()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
