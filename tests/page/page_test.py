#!/usr/bin/env python3
"""Opens pages of recordings made on paper in a headless Chromium, and uses them.

What a page says is compared with the JSON that it holds, as tests/page/recorded.py reads it. No
page may ask for anything but itself, or have anything to say on the console.

  page_test.py WRITE_PAGES EBBTIDE [unittest's arguments]

WRITE_PAGES: the program that writes the pages. EBBTIDE: the command.

EBBTIDE_PAGE_SHOTS=FOLDER keeps a picture of each view. Exit code 77, and one line that says why,
where there is no browser.
"""
import json
import re
import subprocess
import sys
import unittest

import browser
from page_case import KEYS, PageTest
from recorded import Recorded, count_text, size_text

# Of the processor, on the page's thread, whatever else the machine does meanwhile.
READY_SECONDS = 2
FRAME_SECONDS = 0.1


class TextTest(PageTest):
    """The words and numbers of a page."""

    def test_the_facts_are_those_of_the_summary(self):
        self.open('job')
        facts = dict(zip(self.texts('#facts dt'), self.texts('#facts dd')))
        space = self.told.summary['spaces'][0]
        largest = max(space['kinds'], key=lambda kind: kind['bytes'])
        self.assertEqual(f"{size_text(space['peak_bytes'])} {space['peak_blocks']} blocks",
                         facts['Peak'])
        self.assertEqual(f"{largest['kind']} {100 * largest['bytes'] / space['peak_bytes']:.1f} %",
                         facts['Most of it'])
        self.assertEqual(count_text(self.told.summary['launches']), facts['Launches'])
        self.assertEqual(f"3 of {self.told.summary['steps']['launches']} launches", facts['Steps'])
        self.assertEqual(f"{self.told.summary['steps']['median_ms']:.2f} ms median", facts['Step'])
        self.assertEqual('train.py', self.text('#program'))
        self.keep_picture('job')

    def test_the_legend_adds_up_to_the_peak(self):
        self.open('job')
        space = self.told.summary['spaces'][0]
        shown = self.browser.run('return [...document.querySelectorAll("#legend button")].map('
                                 '(each) => [each.dataset.kind, each.lastChild.textContent])')
        of_summary = {kind['kind']: kind['bytes'] for kind in space['kinds']}
        self.assertEqual({kind: size_text(of_summary[kind]) for kind, _ in shown}, dict(shown))
        live = self.told.live_at(space['peak_event'])
        self.assertEqual(space['peak_bytes'], sum(self.told.bytes[block] for block in live))
        self.assertEqual(space['peak_bytes'], sum(of_summary[kind] for kind, _ in shown))

    def test_names_that_look_like_markup_are_text(self):
        self.open('hostile')
        program = self.told.summary['metadata']['program']
        self.assertIn('</script><img', program)
        self.assertEqual(program, self.text('#program'))
        self.assertEqual(program + ' – Ebbtide', self.browser.run('return document.title'))
        self.browser.click('#site-table tbody button')
        self.browser.point('#timeline canvas', 500, 200)
        self.browser.point('#blockmap canvas', 500, 300)
        self.assertIn('onerror', self.text('#tip'))
        self.browser.point('#flamegraph canvas', 100, 70)
        self.assertIn('onerror', self.text('#tip'))
        self.assertEqual(0, self.browser.run('return document.querySelectorAll("img").length'))
        self.keep_picture('hostile')

    def test_what_gets_into_a_page_all_the_same_neither_runs_nor_loads(self):
        self.open('job')
        page = self.folder / 'changed.html'
        more = '<img src="y.png"><script>document.title = "owned"</script></body>'
        page.write_text((self.folder / 'job.html').read_text().replace('</body>', more))
        self.browser.open(page)
        complaints = [entry['message'] for entry in self.browser.log('browser')]
        self.assertEqual(2, len(complaints))
        for complaint in complaints:
            self.assertIn('violates the following Content Security Policy', complaint)
        self.assertEqual('train.py – Ebbtide', self.browser.run('return document.title'))
        self.browser.requests()
        self.open('job')

    def test_a_recording_without_times_counts_events(self):
        self.open('untimed')
        self.assertEqual(['Events'], self.texts('#axis option'))
        self.assertIn('the axis counts events', self.text('#small-print'))
        self.assertNotIn('ms', self.text('#moment'))

    def test_an_empty_recording_is_a_page_too(self):
        self.open('empty')
        self.assertIn('No step repeats', self.text('#notice'))
        self.assertEqual('0 sites', self.text('#sites-count'))


class TimelineTest(PageTest):
    """Memory over time."""

    def test_a_click_picks_the_moment_for_everything_below(self):
        self.open('job')
        peak = self.shown_moment()
        self.assertEqual(self.told.summary['spaces'][0]['peak_event'], peak)
        self.browser.point('#timeline canvas', 400, 200, click=True)
        picked = self.shown_moment()
        self.assertLess(picked, peak)
        total = sum(self.told.bytes[block] for block in self.told.live_at(picked))
        self.assertIn(f'Moment: {size_text(total)} live', self.text('#moment'))
        self.assertIn(f'event {picked}', self.text('#flame-moment').replace('\u2009', ''))
        self.keep_picture('moment')
        self.browser.click('#to-peak')
        self.assertEqual(peak, self.shown_moment())

    def test_hovering_says_what_is_live(self):
        self.open('job')
        self.browser.point('#timeline canvas', 700, 200)
        tip = self.text('#tip')
        event = int(re.search(r'event ([\d\u2009]+)', tip)[1].replace('\u2009', ''))
        live = self.told.live_at(event)
        self.assertIn(size_text(sum(self.told.bytes[block] for block in live)), tip)
        activations = sum(self.told.bytes[block] for block in live
                          if self.told.kinds[block] == 'activation')
        self.assertIn('activation' + size_text(activations), tip)

    def test_kinds_can_be_left_out(self):
        self.open('job')
        self.browser.click('#legend button[data-kind="optimizer state"]')
        space = self.told.summary['spaces'][0]
        state = next(kind['bytes'] for kind in space['kinds'] if kind['kind'] == 'optimizer state')
        self.assertIn(size_text(space['peak_bytes'] - state), self.text('#moment'))
        self.assertEqual('false', self.browser.run(
            'return document.querySelector("#legend button[data-kind=\'optimizer state\']")'
            '.getAttribute("aria-pressed")'))

    def test_keys_move_zoom_and_pick(self):
        self.open('job')
        self.focus('#timeline canvas')
        self.browser.press(KEYS['Home'])
        self.assertIn('Cursor:', self.text('#moment'))
        first = self.shown_moment()
        for _ in range(20):
            self.browser.press(KEYS['Right'])
        later = self.shown_moment()
        self.assertGreater(later, first)
        self.browser.press(KEYS['Enter'])
        self.assertIn('Moment:', self.text('#moment'))
        self.assertEqual(later, self.shown_moment())
        before = self.picture_of('timeline')
        self.browser.press('+')
        self.wait_for(lambda: self.picture_of('timeline') != before, 'nothing was zoomed')
        self.browser.press('p')
        self.assertIn('Peak:', self.text('#moment'))

    def picture_of(self, chart):
        return self.browser.run('return document.querySelector(arguments[0]).toDataURL()',
                                f'#{chart} canvas')

    def test_the_axis_can_count_events(self):
        self.open('job')
        before = self.picture_of('timeline')
        self.browser.run('const axis = document.querySelector("#axis"); axis.value = "events";'
                         'axis.dispatchEvent(new Event("change"))')
        self.wait_for(lambda: self.picture_of('timeline') != before, 'the axis is as before')


class BlocksTest(PageTest):
    """The picture of the blocks."""

    def assert_told(self, tip):
        """That a block's box says what its columns say."""
        block = int(re.search(r'block ([\d\u2009]+)', tip)[1].replace('\u2009', ''))
        head = f'{size_text(self.told.bytes[block])} {self.told.kinds[block]}'
        self.assertTrue(tip.startswith(head), tip)
        self.assertIn(self.told.site_name(self.told.site[block]), tip)
        self.assertIn(f'touches{count_text(self.told.touches[block])}', tip)
        if self.told.end[block] is not None:
            life = self.told.end[block] - self.told.begin[block]
            self.assertIn(f'life{count_text(life)} event', tip)
        else:
            self.assertIn('never freed', tip)
        return block

    def test_hovering_a_block_says_its_site_size_life_and_touches(self):
        self.open('untimed')
        seen = {self.hover(x, y) for x in range(100, 1400, 160) for y in range(16, 350, 40)}
        self.assertGreaterEqual(len(seen - {None}), 10)
        self.keep_picture('block')

    def hover(self, x, y):
        self.browser.point('#blockmap canvas', x, y)
        hidden = self.browser.run('return document.querySelector("#tip").hidden')
        return None if hidden else self.assert_told(self.text('#tip'))

    def test_a_click_opens_the_site(self):
        self.open('job')
        block = self.hover_in_ms(700, 300)
        self.browser.point('#blockmap canvas', 700, 300, click=True)
        site = self.told.recording['sites'][self.told.site[block]]['id']
        self.assertEqual(site, self.browser.run(
            'return document.activeElement.closest("tr").dataset.site'))
        self.assertEqual(self.told.frames(self.told.site[block]), self.texts('tr.stack li'))

    def hover_in_ms(self, x, y):
        self.browser.point('#blockmap canvas', x, y)
        return int(re.search(r'block ([\d\u2009]+)', self.text('#tip'))[1].replace('\u2009', ''))

    def test_arrows_go_from_block_to_block(self):
        self.open('untimed')
        self.focus('#blockmap canvas')
        seen = set()
        for _ in range(6):
            self.browser.press(KEYS['Down'])
            seen.add(self.assert_told(self.text('#tip')))
        self.assertGreater(len(seen), 3)
        self.assertIn('Block ', self.text('#block-said'))

    def test_blocks_can_be_packed(self):
        self.open('job')
        self.assertEqual(['By address', 'Packed'], self.texts('#layout option'))
        self.browser.run('const layout = document.querySelector("#layout");'
                         'layout.value = "packed"; layout.dispatchEvent(new Event("change"))')
        self.assertIsNotNone(self.hover_in_ms(700, 300))


class FlameTest(PageTest):
    """The flame graph."""

    def test_a_click_zooms_and_escape_goes_back(self):
        self.open('job')
        self.assertEqual('', self.text('#flame-path'))
        self.browser.point('#flamegraph canvas', 60, 3 * 19 + 8, click=True)
        top = self.told.summary['spaces'][0]['top_sites'][0]
        share = 100 * top['bytes'] / self.told.summary['spaces'][0]['peak_bytes']
        self.assertEqual(f"/home/user/job/adamw.py:20 _init_group · {size_text(top['bytes'])} "
                         f'({share:.1f} %)', self.text('#flame-path'))
        self.keep_picture('flame')
        self.browser.press(KEYS['Escape'])
        self.assertEqual('', self.text('#flame-path'))

    def test_frames_are_as_wide_as_their_bytes(self):
        self.open('job')
        self.browser.point('#flamegraph canvas', 60, 8)
        space = self.told.summary['spaces'][0]
        self.assertIn(size_text(space['peak_bytes']), self.text('#tip'))
        width = self.browser.run(
            'return document.querySelector("#flamegraph canvas").clientWidth')
        edge = round(width * space['top_sites'][0]['bytes'] / space['peak_bytes'])
        self.browser.point('#flamegraph canvas', edge - 3, 3 * 19 + 8)
        self.assertIn('adamw.py:20', self.text('#tip'))
        self.browser.point('#flamegraph canvas', edge + 3, 3 * 19 + 8)
        self.assertNotIn('adamw.py:20', self.text('#tip'))

    def test_arrows_go_from_frame_to_frame(self):
        self.open('job')
        self.focus('#flamegraph canvas')
        for key in ('Down', 'Down', 'Down', 'Right'):
            self.browser.press(KEYS[key])
        self.assertIn('adamw.py:21 _init_group', self.text('#tip'))
        self.browser.press(KEYS['Enter'])
        self.assertIn('adamw.py:21 _init_group', self.text('#flame-path'))


class SitesTest(PageTest):
    """The table and the search."""

    def test_the_largest_sites_are_those_of_the_summary(self):
        self.open('job')
        top = self.told.summary['spaces'][0]['top_sites']
        rows = self.browser.run('return [...document.querySelectorAll("tr.site")].map('
                                '(row) => [...row.cells].map((cell) => cell.textContent))')
        self.assertEqual([(site['name'], size_text(site['bytes']), count_text(site['blocks']))
                          for site in top[:2]],
                         [(row[0], row[2].split(' · ')[0], row[3]) for row in rows[:2]])
        self.assertEqual({site['name'] for site in top if site['bytes'] > top[-1]['bytes']},
                         {row[0] for row in rows[:10]} & {site['name'] for site in top
                                                         if site['bytes'] > top[-1]['bytes']})

    def test_a_search_finds_sites_by_name_and_by_frame(self):
        self.open('job')
        live = self.told.live_at(self.told.summary['spaces'][0]['peak_event'])
        for word in ('forward', 'libtorch', 'adamw.py:21', 'nothing of this name'):
            self.search(word)
            sites = self.told.sites_with(word)
            found = sum(self.told.bytes[block] for block in live if self.told.site[block] in sites)
            noun = 'site' if len(sites) == 1 else 'sites'
            self.assertIn(f'{len(sites)} {noun} · {size_text(found)}', self.text('#matches'))
            self.assertEqual(f'{len(sites)} {noun}', self.text('#sites-count'))
        self.search('forward')
        self.keep_picture('search')
        self.browser.press(KEYS['Escape'])
        self.assertEqual('', self.text('#matches'))

    def test_columns_sort_both_ways(self):
        self.open('job')
        for first, reverse in (('descending', True), ('ascending', False)):
            self.browser.click('button[data-sort="all"]')
            made = [int(text.replace('\u2009', ''))
                    for text in self.texts('tr.site td:nth-child(5)')]
            self.assertEqual(sorted(made, reverse=reverse), made)
            self.assertEqual(first, self.browser.run(
                'return document.querySelector("button[data-sort=all]").parentNode.ariaSort'))

    def test_a_row_opens_to_its_stack(self):
        self.open('job')
        self.browser.click('tr.site button')
        self.assertEqual(self.told.frames(self.first_site()), self.texts('tr.stack li'))
        self.browser.press(KEYS['Enter'])
        self.assertEqual([], self.texts('tr.stack li'))

    def first_site(self):
        site = self.browser.run('return document.querySelector("tr.site").dataset.site')
        return [each['id'] for each in self.told.recording['sites']].index(site)


class LookTest(PageTest):
    """Colours, keys, size."""

    def colours(self):
        return self.browser.run('return [document.documentElement.dataset.theme, '
                                'getComputedStyle(document.documentElement).backgroundColor]')

    def prefer(self, scheme):
        self.browser.call('POST', '/goog/cdp/execute', {
            'cmd': 'Emulation.setEmulatedMedia',
            'params': {'features': [{'name': 'prefers-color-scheme', 'value': scheme}]}})

    def test_the_systems_colours_are_followed_until_one_is_chosen(self):
        self.open('job')
        grounds = {}
        for theme in ('dark', 'light'):
            self.prefer(theme)
            self.wait_for(lambda: self.colours()[0] == theme, f'the page is not {theme}')
            grounds[theme] = self.colours()[1]
            self.keep_picture(theme)
        self.assertNotEqual(grounds['dark'], grounds['light'])
        self.browser.click('#theme')
        self.prefer('dark')
        self.assertEqual(['light', grounds['light']], self.colours())
        self.browser.click('#theme')
        self.assertEqual(['dark', grounds['dark']], self.colours())

    def test_everything_can_be_reached_by_tab(self):
        self.open('job')
        reached = []
        for _ in range(40):
            self.browser.press(KEYS['Tab'])
            reached.append(self.browser.run(
                'const at = document.activeElement; return at.id || at.closest("[id]")?.id'))
        for name in ('search', 'theme', 'axis', 'show-all', 'overview', 'timeline', 'blockmap',
                     'layout', 'flamegraph', 'site-table'):
            self.assertIn(name, reached)

    def test_controls_and_charts_have_names(self):
        self.open('job')
        nameless = self.browser.run(
            'return [...document.querySelectorAll("button, input, select, canvas[tabindex]")]'
            '.filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim()))'
            '.map((each) => each.outerHTML)')
        self.assertEqual([], nameless)

    def test_a_narrow_window_does_not_scroll_sideways(self):
        self.open('job')
        self.browser.resize(700, 900)
        try:
            self.wait_for(lambda: self.browser.run(
                'return document.documentElement.scrollWidth <= innerWidth'), 'it is too wide')
            self.keep_picture('narrow')
        finally:
            self.browser.resize(*self.browser.size)


class CommandTest(PageTest):
    """What `ebbtide report` writes."""

    def test_page_and_trace_are_of_the_recording(self):
        page, trace = self.folder / 'written.html', self.folder / 'written.json'
        done = subprocess.run(
            [self.ebbtide, 'report', str(self.folder / 'job.ebp'), '--html', str(page),
             '--trace', str(trace)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(0, done.returncode, done.stderr)
        self.open('written')
        made = Recorded(self.folder / 'job.html')
        for key in ('events', 'blocks', 'sites', 'launches', 'steps'):
            self.assertEqual(made.summary[key], self.told.summary[key])
        peak = made.summary['spaces'][0]['peak_bytes']
        self.assertEqual(peak, self.told.summary['spaces'][0]['peak_bytes'])
        events = json.loads(trace.read_text())['traceEvents']
        self.assertEqual(made.summary['blocks'], sum(event['ph'] == 'b' for event in events))
        self.assertEqual(peak, max(event['args']['bytes'] for event in events
                                   if event['ph'] == 'C' and event['name'] == 'all'))


class LargeTest(PageTest):
    """A hundred thousand blocks."""

    def processor_seconds(self):
        """What the page's thread has used of the processor, as the browser counts it."""
        metrics = self.browser.call('POST', '/goog/cdp/execute', {
            'cmd': 'Performance.getMetrics', 'params': {}})['metrics']
        return {metric['name']: metric['value'] for metric in metrics}['TaskDuration']

    def test_it_is_ready_within_two_seconds_and_does_not_lag(self):
        self.browser.call('POST', '/goog/cdp/execute', {
            'cmd': 'Performance.enable', 'params': {'timeDomain': 'threadTicks'}})
        self.open('large')
        self.assertGreater(self.told.summary['blocks'], 100000)
        ready = self.processor_seconds()
        self.browser.click('#show-all')
        self.focus('#blockmap canvas')
        before = self.processor_seconds()
        keys = ['+'] * 10 + ['-'] * 10
        for key in keys:
            self.browser.press(key)
        frame = (self.processor_seconds() - before) / len(keys)
        wall = int(self.browser.run('return document.documentElement.dataset.ready'))
        size = (self.folder / 'large.html').stat().st_size
        print(f'large: {size / 2**20:.1f} MiB, ready after {ready:.2f} s of the processor, '
              f'{wall / 1000:.2f} s in all; a redraw takes {1000 * frame:.0f} ms')
        self.keep_picture('large')
        self.assertLess(ready, READY_SECONDS)
        self.assertLess(frame, FRAME_SECONDS)


if __name__ == '__main__':
    absent = browser.missing()
    if absent:
        print(f'skipped: {absent}')
        sys.exit(77)
    PageTest.write_pages, PageTest.ebbtide = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
