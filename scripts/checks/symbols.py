"""What the built libraries need from, and show to, the process that loads them."""
import re
import subprocess

# The front goes into any process of an old distribution; the core follows Ubuntu 22.04.
FRONT_GLIBC = (2, 28)
CORE_GLIBC = (2, 35)
# Of the machine that builds: newer ones bind strtol and kin to versions of their own.
BUILDER_GLIBC = (2, 36)


def output_of(*argv):
    return subprocess.run(argv, text=True, check=True, stdout=subprocess.PIPE).stdout


def newest_glibc(library):
    found = re.findall(r'\bGLIBC_(\d+)\.(\d+)', output_of('objdump', '-T', str(library)))
    return max(((int(a), int(b)) for a, b in found), default=(0, 0))


def exported(library):
    names = set()
    for line in output_of('nm', '-D', '--defined-only', str(library)).splitlines():
        words = line.split()
        if len(words) == 3:
            names.add(words[2])
    return names


def needed(library):
    return re.findall(r'\(NEEDED\).*\[(.*)\]', output_of('readelf', '-d', str(library)))


def check_version(library, limit):
    builder = tuple(int(n) for n in
                    re.search(r'(\d+)\.(\d+)', output_of('getconf', 'GNU_LIBC_VERSION')).groups())
    newest = newest_glibc(library)
    if newest <= limit:
        return [], None
    text = f'needs GLIBC_{newest[0]}.{newest[1]}, at most {limit[0]}.{limit[1]} is allowed'
    if builder > BUILDER_GLIBC:
        return [], f'{text}; releases are built with glibc {BUILDER_GLIBC[0]}.{BUILDER_GLIBC[1]}'
    return [text], None


def check_front_exports(library, root):
    table = (root / 'hooks' / 'cuda_hooks.def').read_text()
    hooks = set(re.findall(r'^EBT_HOOK\((\w+),', table, re.M))
    header = (root / 'include' / 'ebbtide' / 'ebbtide.h').read_text()
    api = set(re.findall(r'^\w[\w* ]*\b(ebbtide_\w+)\(', header, re.M))
    expected = hooks | api | {'dlsym'}
    found = {name.split('@')[0] for name in exported(library)}
    return ([f'exports {name}, which no list names' for name in sorted(found - expected)] +
            [f'does not export {name}' for name in sorted(expected - found)]), None


def check_front_needs(library):
    libraries = [name for name in needed(library)
                 if name != 'libc.so.6' and not name.startswith('ld-linux')]
    return [f'needs {name}: the front may use libc alone' for name in libraries], None


def check_core_exports(library):
    found = exported(library)
    return ([] if len(found) == 1 else
            [f'exports {sorted(found)} where one symbol is enough']), None


def check_core_needs(library):
    # libunwind must never answer for libgcc's _Unwind_* (ARCHITECTURE.md).
    libraries = needed(library)
    if libraries[:1] == ['libgcc_s.so.1']:
        return [], None
    return [f'needs {libraries[:1]} first; libgcc_s.so.1 has to come before libunwind'], None


def check(build, root):
    """Yields (name, (problems, reason to have skipped it or None))."""
    front, core = build / 'libebbtide.so', build / 'libebbtide-core.so'
    yield 'front: glibc', check_version(front, FRONT_GLIBC)
    yield 'front: exports', check_front_exports(front, root)
    yield 'front: libraries', check_front_needs(front)
    yield 'core: glibc', check_version(core, CORE_GLIBC)
    yield 'core: exports', check_core_exports(core)
    yield 'core: libraries', check_core_needs(core)
