"""GPU memory whose addresses outlive it, by ctypes, as vLLM's sleep mode uses it. Needs torch.

Its C extension reserves addresses and maps memory there (cuMemCreate, cuMemMap); asleep, memory is
unmapped and released. Bytes travel by cudaMemcpy of the libcudart that torch has loaded.
"""

import ctypes
import re

import torch

DEVICE_LOCATION = 1
PINNED_ALLOCATION = 1
READ_WRITE = 3
DEFAULT_KIND = 4  # cudaMemcpyDefault


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Flags(ctypes.Structure):
    _fields_ = [("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort),
                ("reserved", ctypes.c_ubyte * 4)]


class _Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", _Location),
                ("win32", ctypes.c_void_p), ("flags", _Flags)]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


def _loaded(name):
    """Path of a library that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            found = re.search(rf"(/\S*{name}\S*)$", line.strip())
            if found:
                return found.group(1)
    raise RuntimeError(f"{name} is not loaded")


class Libraries:
    """libcuda and libcudart of this process."""

    def __init__(self):
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # makes the context current
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.runtime = ctypes.CDLL(_loaded("libcudart"))
        self.runtime.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                            ctypes.c_int]

    def call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed: CUDA error {status}")

    def memcpy(self, target, source, size):
        status = self.runtime.cudaMemcpy(target, source, size, DEFAULT_KIND)
        if status != 0:
            raise RuntimeError(f"cudaMemcpy of {size} bytes failed: CUDA error {status}")


class Allocation:
    """`size` bytes, a multiple of 2 MiB, mapped or not, always at the same address."""

    def __init__(self, libraries, size, device=0):
        self.libraries, self.size, self.device = libraries, size, device
        address = ctypes.c_uint64()
        libraries.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size),
                       ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.address = address.value
        self.handle = None
        self.map()
        self.tensor = torch.as_tensor(self, device=f"cuda:{device}")
        if self.tensor.data_ptr() != self.address:
            raise RuntimeError("PyTorch copied the memory instead of using it")

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.size // 8,), "typestr": "<i8", "data": (self.address, False),
                "version": 3}

    def map(self):
        location = _Location(DEVICE_LOCATION, self.device)
        properties = _Properties(PINNED_ALLOCATION, 0, location, None, _Flags())
        handle = ctypes.c_uint64()
        self.libraries.call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(self.size),
                            ctypes.byref(properties), ctypes.c_uint64(0))
        self.handle = handle
        self.libraries.call("cuMemMap", ctypes.c_uint64(self.address), ctypes.c_size_t(self.size),
                            ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        access = _Access(location, READ_WRITE)
        self.libraries.call("cuMemSetAccess", ctypes.c_uint64(self.address),
                            ctypes.c_size_t(self.size), ctypes.byref(access), ctypes.c_size_t(1))

    def unmap(self):
        self.libraries.call("cuMemUnmap", ctypes.c_uint64(self.address), ctypes.c_size_t(self.size))
        self.libraries.call("cuMemRelease", self.handle)
        self.handle = None

    def close(self):
        self.tensor = None
        if self.handle is not None:
            self.unmap()
        self.libraries.call("cuMemAddressFree", ctypes.c_uint64(self.address),
                            ctypes.c_size_t(self.size))
