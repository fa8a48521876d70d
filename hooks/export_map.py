#!/usr/bin/env python3
"""Makes the front's export map from the table: export_map.py cuda_hooks.def OUTPUT.

The version node has no name: a named one fails to interpose dlsym.
"""
import re
import sys

C_API = ["dlsym", "ebbtide_version", "ebbtide_step", "ebbtide_phase", "ebbtide_get_statistics"]

with open(sys.argv[1]) as table:
    symbols = re.findall(r"^EBT_HOOK\((\w+),", table.read(), re.MULTILINE)
with open(sys.argv[2], "w") as output:
    names = "".join(f"    {name};\n" for name in symbols + C_API)
    output.write("{\n  global:\n" + names + "  local:\n    *;\n};\n")
