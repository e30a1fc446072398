#!/usr/bin/env python3
"""How much machine code the GPU kernels of a library have; with --check, whether those of a decode
step keep to their budgets, because code takes time at every launch whether it runs or not
(docs/design/kernels.md, "Code takes time").

  code_size.py build/release/src/kernels/libcauseway_kernels.a            all kernels, largest first
  code_size.py --check build/release/src/kernels/libcauseway_kernels.a    exit 1 if one is over

Reads the cubins' section headers out of the file: needs no CUDA toolkit.
"""
import argparse
import re
import struct
import sys

ELF_MAGIC = b"\x7fELF\x02\x01"
MACHINE_CUDA = 190

# What a step of a common model launches: a regular expression of the mangled name, and bytes. About
# a twentieth above what they have.
BUDGETS = (
    # Products of Llama-3.1-8B: up to 8 rows, 16, 32, 64, 96, 128; in pairs.
    (r"rows_kernelILi8ELi[23]ELb0ELi1E.*FinishE0", 7_300),
    (r"rows_kernelILi8ELi3ELb1ELi1E.*FinishE[01]", 8_500),
    (r"rows_kernelILi16ELi[23]ELb0ELi1E.*FinishE0", 8_000),
    (r"rows_kernelILi16ELi3ELb1ELi1E.*FinishE[01]", 10_000),
    (r"rows_kernelILi32ELi[23]ELb0ELi1E.*FinishE0", 9_600),
    (r"rows_kernelILi32ELi3ELb1ELi1E.*FinishE0", 12_300),
    (r"gemm12split_kernelILi32E.*FinishE[12]", 11_700),
    (r"gemm12split_kernelILi64E.*FinishE[12]", 12_700),
    (r"gemm12split_kernelILi96E.*FinishE[12]", 13_500),
    (r"gemm12split_kernelILi128E.*FinishE[12]", 14_500),
    (r"gemm12split_kernelILi64E.*FinishE[02]ELb1E", 10_100),
    (r"gemm12split_kernelILi128E.*FinishE[02]ELb1E", 13_000),
    # Attention, without and with norms of heads.
    (r"parts.*split_kernelILi128E.*ServesE1", 15_100),
    (r"parts.*split_kernelILi128E.*ServesE2", 17_100),
    (r"few_kernelILi128ELi1E", 19_600),
    (r"12merge_kernelILi128E", 8_900),
    (r"merge_many_kernelILi128E", 6_200),
    (r"norm_kernelILi[12]E", 4_200),
    # Experts of Qwen3-30B-A3B: one token, up to 8, more.
    (r"woven_kernelILb1E", 23_600),
    (r"moe10few_kernelILb1E", 35_500),
    (r"moe10few_kernelILb0E", 21_900),
    (r"group_kernelILi4E", 9_500),
)


def text_sections(data, base):
    """(name, bytes) of the code sections of the ELF image that begins at `base`."""
    (headers,) = struct.unpack_from("<Q", data, base + 0x28)
    size, count, names = struct.unpack_from("<HHH", data, base + 0x3A)
    found = [struct.unpack_from("<IIQQQQ", data, base + headers + i * size) for i in range(count)]
    strings = base + found[names][4]
    for header in found:
        start = strings + header[0]
        name = data[start:data.index(b"\0", start)].decode("ascii", "replace")
        if name.startswith(".text."):
            yield name[len(".text."):], header[5]


def kernels_of(data):
    """{mangled name: bytes of code} of all cubins in `data`."""
    kernels = {}
    at = data.find(ELF_MAGIC)
    while at >= 0:
        (machine,) = struct.unpack_from("<H", data, at + 18)
        if machine == MACHINE_CUDA:
            for name, size in text_sections(data, at):
                kernels[name] = max(size, kernels.get(name, 0))
        at = data.find(ELF_MAGIC, at + 1)
    return kernels


def faults(kernels, budgets):
    """What is wrong, a line each: kernels over their budget, budgets of no kernel."""
    lines = []
    for pattern, most in budgets:
        matched = {name: size for name, size in kernels.items() if re.search(pattern, name)}
        if not matched:
            lines.append(f"no kernel matches {pattern!r}: correct BUDGETS in tools/code_size/code_size.py")
        lines += [f"{size} bytes of code where {most} are allowed: {name}"
                  for name, size in sorted(matched.items()) if size > most]
    return lines


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the budgets")
    parser.add_argument("file", help="a library, object or program")
    options = parser.parse_args(arguments)
    with open(options.file, "rb") as file:
        kernels = kernels_of(file.read())
    if not options.check:
        for name, size in sorted(kernels.items(), key=lambda entry: -entry[1]):
            print(f"{size:8} {name}")
        return 0
    lines = faults(kernels, BUDGETS)
    for line in lines:
        print(line)
    if lines:
        print("Code takes time at every launch: make the kernel smaller, or raise its budget with"
              " the measured reason (docs/design/kernels.md).")
    else:
        print(f"{len(kernels)} kernels, {len(BUDGETS)} budgets kept")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
