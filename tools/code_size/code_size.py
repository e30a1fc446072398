#!/usr/bin/env python3
"""How much machine code the GPU kernels of a library have, and memory of a thread's own (stack);
with --check, whether those of a decode step keep to their budgets, because code takes time at every
launch whether it runs or not (docs/design/kernels.md, "Code takes time"), and have no stack: an
array that is indexed by what the compiler does not know lies there, also one of the arguments.

  code_size.py build/release/src/kernels/libcauseway_kernels.a            all kernels, largest first
  code_size.py --check build/release/src/kernels/libcauseway_kernels.a    exit 1 if one is over

Reads the cubins' sections out of the file: needs no CUDA toolkit.
"""
import argparse
import re
import struct
import sys

ELF_MAGIC = b"\x7fELF\x02\x01"
MACHINE_CUDA = 190
FRAME_SIZE = b"\x04\x11\x08\x00"  # an entry of .nv.info: two words follow, symbol and bytes

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
    (r"gemm12split_kernelILi64E.*FinishE[12]", 14_300),
    (r"gemm12split_kernelILi96E.*FinishE[12]", 15_000),
    (r"gemm12split_kernelILi128E.*FinishE[12]", 15_800),
    (r"gemm12split_kernelILi64E.*FinishE[02].*PairsE1E", 10_100),
    (r"gemm12split_kernelILi128E.*FinishE[02].*PairsE1E", 13_000),
    # Attention, without and with norms of heads.
    (r"parts.*split_kernelILi128E.*ServesE1", 15_100),
    (r"parts.*split_kernelILi128E.*ServesE2", 17_100),
    (r"parts.*split_kernelILi256E.*ServesE0", 25_100),
    (r"small_batch_kernelILi128ELi1E", 19_600),
    (r"12merge_kernelILi128E", 8_900),
    (r"merge_many_kernelILi128E", 6_200),
    (r"norm_kernelILi[12]E", 4_400),
    # Experts of Qwen3-30B-A3B: one token, up to 8, more.
    (r"one_token_kernelILb1E", 23_600),
    (r"moe18small_batch_kernelILb1E", 35_500),
    (r"moe18small_batch_kernelILb0E", 21_900),
    (r"group_kernelILi4E", 9_500),
)


def sections(data, base):
    """{name: (offset, bytes)} of the ELF image that begins at `base`."""
    (headers,) = struct.unpack_from("<Q", data, base + 0x28)
    size, count, names = struct.unpack_from("<HHH", data, base + 0x3A)
    found = [struct.unpack_from("<IIQQQQ", data, base + headers + i * size) for i in range(count)]
    strings = base + found[names][4]
    return {text_at(data, strings + header[0]): (base + header[4], header[5]) for header in found}


def text_at(data, start):
    return data[start:data.index(b"\0", start)].decode("ascii", "replace")


def stacks_of(data, found):
    """{mangled name: bytes of stack}, of the sections of one image."""
    info, size = found.get(".nv.info", (0, 0))
    symbols, strings = found.get(".symtab", (0, 0))[0], found.get(".strtab", (0, 0))[0]
    stacks, at, end = {}, info, info + size
    while at + 12 <= end:
        if data[at:at + 4] == FRAME_SIZE:
            symbol, frame = struct.unpack_from("<II", data, at + 4)
            (name,) = struct.unpack_from("<I", data, symbols + 24 * symbol)
            stacks[text_at(data, strings + name)] = frame
        # Format 4 has a size behind it, others a value of two bytes.
        at += 4 + (struct.unpack_from("<H", data, at + 2)[0] if data[at] == 4 else 0)
    return stacks


def kernels_of(data):
    """{mangled name: (bytes of code, bytes of stack)} of all cubins in `data`; no word of a stack: None."""
    kernels = {}
    at = data.find(ELF_MAGIC)
    while at >= 0:
        (machine,) = struct.unpack_from("<H", data, at + 18)
        if machine == MACHINE_CUDA:
            found = sections(data, at)
            stacks = stacks_of(data, found)
            for section, (_, size) in found.items():
                if section.startswith(".text."):
                    name = section[len(".text."):]
                    kernels[name] = (size, stacks.get(name))
        at = data.find(ELF_MAGIC, at + 1)
    return kernels


def faults(kernels, budgets):
    """What is wrong, a line each: kernels over their budget or with a stack, budgets of no kernel."""
    lines = []
    for pattern, most in budgets:
        matched = {name: sizes for name, sizes in kernels.items() if re.search(pattern, name)}
        if not matched:
            lines.append(f"no kernel matches {pattern!r}: correct BUDGETS in tools/code_size/code_size.py")
        lines += [f"{size} bytes of code where {most} are allowed: {name}"
                  for name, (size, _) in sorted(matched.items()) if size > most]
        lines += [f"{'unknown' if stack is None else stack} bytes of stack where there should be"
                  f" none: {name}" for name, (_, stack) in sorted(matched.items()) if stack != 0]
    return lines


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the budgets")
    parser.add_argument("file", help="a library, object or program")
    options = parser.parse_args(arguments)
    with open(options.file, "rb") as file:
        kernels = kernels_of(file.read())
    if not options.check:
        for name, (size, stack) in sorted(kernels.items(), key=lambda entry: -entry[1][0]):
            print(f"{size:8} {'?' if stack is None else stack:6} {name}")
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
