#!/usr/bin/env python3
"""Puts the page's parts together and writes them as C++: html_page.cc.

The scripts become one, in the order given, inside a function of its own. The page's security policy
names the hashes of that script and of the style sheet, so a browser runs these two and nothing else
that a recording could bring in, and loads nothing.

  embed.py OUTPUT PAGE.html PAGE.css SCRIPT.js ...
"""
import base64
import hashlib
import pathlib
import sys

DATA = '<!-- data -->'
POLICY = ("default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
          "base-uri 'none'; form-action 'none'")
# Longer literals than this are beyond what compilers promise.
PIECE = 8000


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def literal(text):
    pieces = [text[i:i + PIECE] for i in range(0, len(text), PIECE)]
    return '\n'.join(f'    R"ebbtide({piece})ebbtide"' for piece in pieces)


def assembled(page, style, scripts):
    """The page's text before and behind its data."""
    for part in (style, *scripts):
        if '</' in part or ')ebbtide"' in part:
            raise SystemExit('embed.py: a part would end its element or its C++ literal')
    script = "\n(() => {\n'use strict';\n" + '\n'.join(scripts) + '\n})();\n'
    style = '\n' + style
    policy = POLICY.format(script=digest(script), style=digest(style))
    page = (page.replace('<!-- policy -->',
                         f'<meta http-equiv="Content-Security-Policy" content="{policy}">')
            .replace('<!-- style -->', f'<style>{style}</style>')
            .replace('<!-- script -->', f'<script>{script}</script>'))
    head, tail = page.split(DATA)
    return head, tail


def main():
    output, *names = sys.argv[1:]
    page, style, *scripts = [pathlib.Path(name).read_text(encoding='utf-8') for name in names]
    head, tail = assembled(page, style, scripts)
    pathlib.Path(output).write_text(
        '#include "src/report/html_page.h"\n\n'
        'namespace ebt::report {\n\n'
        f'const std::string_view kPageHead =\n{literal(head)};\n\n'
        f'const std::string_view kPageTail =\n{literal(tail)};\n\n'
        '}  // namespace ebt::report\n', encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main())
