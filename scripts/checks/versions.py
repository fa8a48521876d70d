"""The table of hooks against NVIDIA's own list of versions, cudaTypedefs.h.

That header has a type for each version and stream mode of each function, PFN_cuMemcpy_v7000_ptds:
what the driver answers for that function from that version on.
"""
import re

PLACES = ('/usr/local/cuda/include', '.cache/cuda/include', '/usr/include')
HEADER = 'cudaTypedefs.h'
# Before it a device address has 32 bits; the table leaves those out (cuda_hooks.def).
FIRST_VERSION = 3020
# What cuda.h exports and the list of types lacks.
UNLISTED = {('cuGetProcAddress', 11030, '_ptsz'), ('cuGetProcAddress', 12000, '_ptsz')}


def check(root):
    """(problems, reason to have skipped it or None)"""
    # The one that meson takes cuda.h from.
    place = next((root / p for p in PLACES if (root / p / 'cuda.h').exists()), None)
    if place is None or not (place / HEADER).exists():
        return [], f'no {HEADER} beside cuda.h'
    listed = {(base, int(version), mode) for base, version, mode in re.findall(
        r'\(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)', (place / HEADER).read_text())}
    table = (root / 'hooks' / 'cuda_hooks.def').read_text()
    hooked = {}
    for symbol, base, since in re.findall(r'^EBT_HOOK\((\w+), (\w+), (\d+),', table, re.M):
        mode = symbol[-5:] if symbol.endswith(('_ptsz', '_ptds')) else ''
        hooked[base, int(since), mode] = symbol
    bases = {base for base, _, _ in hooked}
    problems = [f'{hooked[row]}: {HEADER} knows no {row[0]} of {row[1]} {row[2]}'.rstrip()
                for row in sorted(hooked.keys() - listed - UNLISTED)]
    problems += [f'{base}: its version of {version} {mode}'.rstrip() + ' is in no row'
                 for base, version, mode in sorted(listed - hooked.keys())
                 if base in bases and version >= FIRST_VERSION]
    return problems, None
