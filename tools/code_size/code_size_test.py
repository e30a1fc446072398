"""Tests of code_size.py on ELF images made here."""
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import code_size  # noqa: E402


def image(sections, machine=code_size.MACHINE_CUDA):
    """An ELF image of sections {name: content}; of a number so many bytes, which are not there."""
    names, offsets, places, body = b"\0", [], [], b""
    for name in (*sections, ".shstrtab"):
        offsets.append(len(names))
        names += name.encode() + b"\0"
    for content in (*sections.values(), names):
        places.append(64 + len(body))
        body += content if isinstance(content, bytes) else b""
    sizes = [content if isinstance(content, int) else len(content)
             for content in (*sections.values(), names)]
    header = bytearray(64)
    header[:6] = code_size.ELF_MAGIC
    struct.pack_into("<H", header, 18, machine)
    struct.pack_into("<Q", header, 0x28, 64 + len(body))
    struct.pack_into("<HHH", header, 0x3A, 64, len(sizes), len(sizes) - 1)
    table = b"".join(struct.pack("<IIQQQQ", offset, 1, 0, 0, place, size) + bytes(24)
                     for offset, place, size in zip(offsets, places, sizes))
    return bytes(header) + body + table


def with_stacks(stacks):
    """The sections that say which function has how much stack, with other entries between."""
    strings, symbols, info = b"\0", bytes(24), b""
    for number, (name, stack) in enumerate(stacks.items(), 1):
        symbols += struct.pack("<I", len(strings)) + bytes(20)
        strings += name.encode() + b"\0"
        info += b"\x03\x11\x08\x00"  # has its value in itself
        info += code_size.FRAME_SIZE + struct.pack("<II", number, stack)
        info += b"\x04\x12\x08\x00" + struct.pack("<II", number, 999)
    return {".nv.info": info, ".symtab": symbols, ".strtab": strings}


class CodeSizeTest(unittest.TestCase):
    def test_finds_kernels_of_all_cubins_and_nothing_else(self):
        data = (b"!<arch>\n" + image({".text.host": 7}, machine=62) + b"pad" +
                image({".text.a": 100, ".nv.info.a": 5}) + image({".text.b": 200, ".text.a": 90}))
        self.assertEqual(code_size.kernels_of(data), {"a": (90, None), "b": (200, None)})

    def test_finds_stacks_of_the_cubin_that_a_kernel_is_in(self):
        data = (image({".text.a": 10, ".text.b": 20, **with_stacks({"a": 0, "b": 48})}) + b"pad" +
                image({".text.c": 30, **with_stacks({"c": 16, "elsewhere": 8})}))
        self.assertEqual(code_size.kernels_of(data), {"a": (10, 0), "b": (20, 48), "c": (30, 16)})

    def test_a_kernel_over_its_budget_is_a_fault(self):
        kernels = {"x_kernelILi1E": (100, 0), "x_kernelILi2E": (120, 0)}
        self.assertEqual(code_size.faults(kernels, [("x_kernel", 120)]), [])
        lines = code_size.faults(kernels, [("x_kernel", 119)])
        self.assertEqual(len(lines), 1)
        self.assertIn("120 bytes of code where 119 are allowed: x_kernelILi2E", lines[0])

    def test_a_stack_is_a_fault_in_a_kernel_with_a_budget(self):
        kernels = {"x_kernel": (100, 8), "y_kernel": (100, 8), "z_kernel": (100, None)}
        lines = code_size.faults(kernels, [("x_kernel", 120), ("z_kernel", 120)])
        self.assertEqual(lines, ["8 bytes of stack where there should be none: x_kernel",
                                 "unknown bytes of stack where there should be none: z_kernel"])

    def test_a_budget_of_no_kernel_is_a_fault(self):
        self.assertIn("no kernel matches", code_size.faults({"y": (1, 0)}, [("x", 1)])[0])


if __name__ == "__main__":
    unittest.main()
