#!/usr/bin/env python3
"""Whether what users run in their own programs is free of benchmarks (docs/design/bench.md).

    bench_symbols.py --bench ARCHIVE… --product ARCHIVE_OR_LIBRARY…

A symbol that an archive of src/bench defines must be neither defined in a product library nor
asked for by one. Weak symbols, which every user of an inline function has, do not count. Prints
one line a fault, and exits 1 if there is any. Reads with `nm`.
"""
import argparse
import subprocess
import sys

NM_SECONDS_MAX = 60
WEAK = "wWvVu"
UNDEFINED = "U"


def symbols_of(listing):
    """({defined}, {asked for}) of what `nm --format=posix` prints: NAME LETTER [VALUE SIZE]."""
    defined, wanted = set(), set()
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) < 2 or len(fields[1]) != 1 or fields[1] in WEAK:
            continue
        name, letter = fields[:2]
        (wanted if letter == UNDEFINED else defined).add(name)
    return defined, wanted - defined


def bench_names(listing):
    """What only benchmarks define: global names of the project's own."""
    defined = {line.split()[0] for line in listing.splitlines()
               if len(line.split()) > 2 and line.split()[1] in "TBDR"}
    return {name for name in defined if "8causeway" in name}


def faults(bench, product):
    """bench: {file: listing}, product: {file: listing}. One line each."""
    names = set().union(*map(bench_names, bench.values()))
    lines = [] if names else ["the archives of src/bench define no symbol: are they the right ones?"]
    for file, listing in sorted(product.items()):
        defined, wanted = symbols_of(listing)
        if not defined:
            lines.append(f"{file} defines no symbol: is it stripped?")
        lines += [f"{file} has {name}, which is of src/bench" for name in sorted(names & defined)]
        lines += [f"{file} needs {name} of src/bench" for name in sorted(names & wanted)]
    return lines


def listing_of(file):
    return subprocess.run(["nm", "--format=posix", file], check=True, capture_output=True, text=True,
                          timeout=NM_SECONDS_MAX).stdout


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bench", nargs="+", required=True, help="archives of src/bench")
    parser.add_argument("--product", nargs="+", required=True, help="libraries that must not have them")
    options = parser.parse_args(arguments)
    found = faults({file: listing_of(file) for file in options.bench},
                   {file: listing_of(file) for file in options.product})
    for line in found:
        print(line)
    print(f"{len(options.product)} libraries, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
