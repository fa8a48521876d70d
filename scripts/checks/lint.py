"""clang-tidy over src/ and hooks/, within a time limit.

A file that was clean is not looked at again until it, a header or the configuration changes.
Files that the work in progress or the last commit changed come first, then the others in an order
that each commit shuffles; what the limit leaves out is looked at in a later run, and said.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import time

# Of two processors; a file takes ten seconds or so.
LIMIT_SECONDS = 30


def digest(root, names):
    sha = hashlib.sha256()
    for name in names:
        sha.update((root / name).read_bytes())
    return sha.hexdigest()


def commit(root):
    done = subprocess.run(['git', 'rev-parse', 'HEAD'], cwd=root, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.strip()


def changed_files(root):
    """What differs from main, and what the last commit brought."""
    changed = set()
    for base in ('main', 'HEAD~1'):
        done = subprocess.run(['git', 'diff', '--name-only', base, '--', 'src', 'hooks'], cwd=root,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            changed.update(done.stdout.split())
    return changed


def write_commands(root, folder):
    """How each source is compiled: one that is compiled with others has their command."""
    commands = []
    for entry in json.loads((root / 'build' / 'compile_commands.json').read_text()):
        path = pathlib.Path(entry['directory'], entry['file'])
        merged = []
        if '-unity' in path.name and path.exists():
            merged = re.findall(r'^#include\s*[<"](.*)[>"]', path.read_text(), re.M)
        commands += [dict(entry, file=os.path.abspath(path.parent / name),
                          command=entry['command'].replace(entry['file'],
                                                           os.path.abspath(path.parent / name)))
                     for name in merged] or [entry]
    (folder / 'compile_commands.json').write_text(json.dumps(commands))


def tidy(root, name):
    done = subprocess.run(['clang-tidy', '-p', '.cache/lint', '--quiet', name], cwd=root, text=True,
                          errors='replace', stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [line for line in done.stdout.splitlines() if ': error:' in line or ': warning:' in line]


def check(root, sources):
    """(problems, reason to have skipped it or None)"""
    files = [s for s in sources if s.endswith('.cc') and s.startswith(('src/', 'hooks/'))]
    shared = digest(root, [s for s in sources if s.endswith('.h')] + ['.clang-tidy'])
    cache = root / '.cache' / 'lint'
    cache.mkdir(parents=True, exist_ok=True)
    write_commands(root, cache)
    changed = changed_files(root)
    stamps = {f: cache / hashlib.sha256((shared + f + digest(root, [f])).encode()).hexdigest()
              for f in files}
    head = commit(root)
    todo = sorted((f for f in files if not stamps[f].exists()), key=lambda f: (
        f not in changed, hashlib.sha256((head + f).encode()).digest()))
    deadline = time.monotonic() + LIMIT_SECONDS
    problems, left = [], 0

    def one(name):
        return None if time.monotonic() > deadline else tidy(root, name)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for name, found in zip(todo, pool.map(one, todo)):
            if found is None:
                left += 1
            elif found:
                problems += found
            else:
                stamps[name].touch()
    if left and not problems:
        print(f'    {left} of {len(files)} files are left for the next run', flush=True)
    return problems, None
