"""What a page holds of its recording: two JSON objects, and columns read by their description.

A second reading: src/report/column.h and block_columns.h say how they are written.
"""
import base64
import html.parser
import json

KINDS = ('unknown', 'parameter', 'gradient', 'optimizer state', 'activation', 'temporary',
         'workspace', 'input', 'communication')


class _DataElements(html.parser.HTMLParser):
    """The text of each element <script type="application/json">, by its id."""

    def __init__(self):
        super().__init__()
        self.texts = {}
        self.open = None

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == 'script' and attributes.get('type') == 'application/json':
            self.open = attributes['id']
            self.texts[self.open] = ''

    def handle_endtag(self, tag):
        if tag == 'script':
            self.open = None

    def handle_data(self, data):
        if self.open:
            self.texts[self.open] += data


def numbers(column):
    found, number, shift = [], 0, 0
    for byte in base64.b64decode(column):
        number |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            found.append(number)
            number, shift = 0, 0
    return found


class Recorded:
    """A page's recording."""

    def __init__(self, path):
        elements = _DataElements()
        elements.feed(path.read_text(encoding='utf-8'))
        self.summary = json.loads(elements.texts['summary'])
        self.recording = json.loads(elements.texts['recording'])
        columns = {name: numbers(text) for name, text in self.recording['columns'].items()}
        self.bytes = [units * 512 for units in columns['bytes']]
        self.kinds = [KINDS[kind] for kind in columns['kind']]
        self.site = columns['site']
        self.touches = columns['touches']
        self.begin, at = [], 0
        for step in columns['alloc']:
            at += step
            self.begin.append(at)
        self.end = [begin + life if life else None
                    for begin, life in zip(self.begin, columns['life'])]

    def live_at(self, event):
        """The blocks that are live right behind an event."""
        return [block for block, begin in enumerate(self.begin)
                if begin <= event and (self.end[block] is None or self.end[block] > event)]

    def site_name(self, site):
        return self.recording['sites'][site]['name']

    def frames(self, site):
        return [self.recording['texts'][frame] for frame in self.recording['sites'][site]['frames']]

    def sites_with(self, word):
        return [site for site in range(len(self.recording['sites']))
                if any(word in text.lower() for text in [self.site_name(site), *self.frames(site)])]


def size_text(size):
    if size < 1024:
        return f'{size} B'
    value, unit = size / 1024, 0
    while value >= 1023.995:
        value /= 1024
        unit += 1
    return f'{value:.2f} {("KiB", "MiB", "GiB", "TiB")[unit]}'


def count_text(count):
    """Thin spaces between thousands."""
    return f'{count:,}'.replace(',', '\u2009')
