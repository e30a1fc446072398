"""Tests of code_size.py on an ELF image made here."""
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import code_size  # noqa: E402


def image(sections, machine=code_size.MACHINE_CUDA):
    """An ELF image of sections {name: bytes}, of which only the headers are there."""
    names, offsets = b"\0", []
    for name in (*sections, ".shstrtab"):
        offsets.append(len(names))
        names += name.encode() + b"\0"
    sizes = [*sections.values(), len(names)]
    headers_at = 64 + len(names)
    header = bytearray(64)
    header[:6] = code_size.ELF_MAGIC
    struct.pack_into("<H", header, 18, machine)
    struct.pack_into("<Q", header, 0x28, headers_at)
    struct.pack_into("<HHH", header, 0x3A, 64, len(sizes), len(sizes) - 1)
    table = b"".join(struct.pack("<IIQQQQ", offset, 1, 0, 0, 64, size) + bytes(24)
                     for offset, size in zip(offsets, sizes))
    return bytes(header) + names + table


class CodeSizeTest(unittest.TestCase):
    def test_finds_kernels_of_all_cubins_and_nothing_else(self):
        data = (b"!<arch>\n" + image({".text.host": 7}, machine=62) + b"pad" +
                image({".text.a": 100, ".nv.info.a": 5}) + image({".text.b": 200, ".text.a": 90}))
        self.assertEqual(code_size.kernels_of(data), {"a": 100, "b": 200})

    def test_a_kernel_over_its_budget_is_a_fault(self):
        kernels = {"x_kernelILi1E": 100, "x_kernelILi2E": 120}
        self.assertEqual(code_size.faults(kernels, [("x_kernel", 120)]), [])
        lines = code_size.faults(kernels, [("x_kernel", 119)])
        self.assertEqual(len(lines), 1)
        self.assertIn("120 bytes of code where 119 are allowed: x_kernelILi2E", lines[0])

    def test_a_budget_of_no_kernel_is_a_fault(self):
        self.assertIn("no kernel matches", code_size.faults({"y": 1}, [("x", 1)])[0])


if __name__ == "__main__":
    unittest.main()
