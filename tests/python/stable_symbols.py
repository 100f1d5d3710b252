#!/usr/bin/env python3
"""Which symbols the operators' library takes from others. `stable_symbols.py LIBRARY` lists them by owner and exits
with 1 if any is not stable: C++ symbols of torch, or anything of Python's.

Stable are the C functions of torch's ABI (aoti_torch_*, torch_*), the C and C++ runtimes, and Highway's.
"""

import re
import subprocess
import sys

# In this order. C++ names are mangled: St and S with a small letter are std, 9__gnu_cxx the runtime's own namespace.
OWNERS = {
    "torch's stable ABI": r"(aoti_torch|torch)_\w+",
    "Highway": r"_ZN3hwy\w+",
    "librtopk, where it is shared": r"_ZNK?5rtopk\w+",
    "the C++ runtime": r"_Z(T[ISV])?(N[KRO]*)?(S[a-z]|9__gnu_cxx|10__cxxabiv1)\w*|_Z[nd][alw]\w*"
    r"|__(cxa|gxx|once)_\w+|_Unwind_\w+|_ZGTtn[aw]m|_ZGTtdlPv",  # the last: transactional memory, where it is static
    "the C library": r"(?!_Z|_?Py|cuda|cu[A-Z])\w+",
}


def undefined_symbols(library):
    command = ["nm", "--dynamic", "--undefined-only", "--format=posix", str(library)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({line.split()[0].split("@")[0] for line in lines})


def owner_of(symbol):
    """Whose a symbol is, or None if it may not be used."""
    return next((owner for owner, pattern in OWNERS.items() if re.fullmatch(pattern, symbol)), None)


def by_owner(symbols):
    owners = {}
    for symbol in symbols:
        owners.setdefault(owner_of(symbol), []).append(symbol)
    return owners


def main():
    owners = by_owner(undefined_symbols(sys.argv[1]))
    for owner, symbols in owners.items():
        print(f"{owner or 'NOT STABLE'}: {' '.join(symbols)}")
    return 1 if None in owners else 0


if __name__ == "__main__":
    sys.exit(main())
