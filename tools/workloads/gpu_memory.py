"""Pinned host memory that is quick to get, and device memory whose contents are known. Needs torch."""

import concurrent.futures
import ctypes
import mmap
import os
import time

import torch

MADV_HUGEPAGE = 14
HUGE = 2 << 20
PIECE = 64 << 20  # touched by one thread at a time
WORD = 8
FACTOR = 0x5851F42D4C957F2D  # odd: words of a pattern differ
CHUNK_WORDS = 32 << 20  # of a pattern made at once: 256 MiB

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                       ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
_libc.memset.restype = ctypes.c_void_p


def check_cuda(status, what):
    if int(status) != 0:
        raise RuntimeError(f"{what} failed: CUDA error {int(status)}")


class PinnedPool:
    """One mapping with huge pages, touched by all processors at once, then registered: several times
    faster than cudaHostAlloc, which takes 0.7 s a GB."""

    def __init__(self, size):
        self.size = -(-size // HUGE) * HUGE
        self.mapped = self.size + HUGE
        self.mapping = _libc.mmap(None, self.mapped, mmap.PROT_READ | mmap.PROT_WRITE,
                                  mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if self.mapping in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"no {self.size >> 30} GiB of host memory")
        self.address = -(-self.mapping // HUGE) * HUGE
        _libc.madvise(self.address, self.size, MADV_HUGEPAGE)  # small pages do too
        pieces = [(self.address + at, min(PIECE, self.size - at)) for at in range(0, self.size, PIECE)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda piece: _libc.memset(piece[0], 0, piece[1]), pieces))
        check_cuda(torch.cuda.cudart().cudaHostRegister(self.address, self.size, 0),
                   f"cudaHostRegister of {self.size >> 20} MiB")
        buffer = (ctypes.c_char * self.size).from_address(self.address)
        self.bytes = torch.frombuffer(buffer, dtype=torch.uint8)
        self.used = 0

    def take(self, size):
        """The next `size` bytes, as uint8, at a multiple of 512."""
        begin = -(-self.used // 512) * 512
        if begin + size > self.size:
            raise MemoryError(f"the pool has no {size} bytes left")
        self.used = begin + size
        return self.bytes[begin:begin + size]

    def reset(self):
        self.used = 0

    def close(self):
        self.bytes = None
        check_cuda(torch.cuda.cudart().cudaHostUnregister(self.address), "cudaHostUnregister")
        _libc.munmap(self.mapping, self.mapped)


def _pattern(begin, count, seed, device):
    """Words [begin, begin + count) of pattern `seed`."""
    return torch.arange(begin, begin + count, dtype=torch.int64, device=device).mul_(FACTOR).add_(seed)


def _words(tensor):
    return tensor.view(-1).view(torch.int64)


def fill(tensor, seed):
    """Pattern `seed` into a tensor on the GPU, whose size is a multiple of 8 bytes."""
    words = _words(tensor)
    for begin in range(0, words.numel(), CHUNK_WORDS):
        part = words[begin:begin + CHUNK_WORDS]
        part.copy_(_pattern(begin, part.numel(), seed, tensor.device))


def wrong_words(tensor, seed):
    """How many words of a tensor on the GPU are not pattern `seed`."""
    words, wrong = _words(tensor), 0
    for begin in range(0, words.numel(), CHUNK_WORDS):
        part = words[begin:begin + CHUNK_WORDS]
        expected = _pattern(begin, part.numel(), seed, tensor.device)
        if not torch.equal(part, expected):
            wrong += int((part != expected).sum())
    return wrong


def verify(tensors, seed, what):
    """Every byte of every tensor: the i-th holds pattern seed + i."""
    for i, tensor in enumerate(tensors):
        wrong = wrong_words(tensor, seed + i)
        if wrong:
            raise SystemExit(f"WRONG: {what}: {wrong} of {tensor.nbytes // WORD} words of tensor {i} differ")


def _seconds_of(action):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def timed_rounds(tensors, phases, lose, repeat, what, first_seed):
    """Seconds of the two `phases` (name: action) in `repeat` rounds behind one that warms up. The first takes
    the tensors' contents to the host, then `lose` makes sure that they are gone from the GPU, and the second
    must bring every byte back."""
    times = {name: [] for name in phases}
    away, back = phases.values()
    for round_number in range(repeat + 1):
        seed = first_seed + 100_003 * round_number
        for i, tensor in enumerate(tensors):
            fill(tensor, seed + i)
        took = [_seconds_of(away)]
        lose()
        took.append(_seconds_of(back))
        verify(tensors, seed, f"{what}, round {round_number}")
        if round_number > 0:
            for name, seconds in zip(phases, took):
                times[name].append(seconds)
    return times


def room_for(size):
    """Whether the current GPU has `size` bytes and some for patterns."""
    return torch.cuda.mem_get_info()[0] > size + (2 << 30)
