"""What the tests of a page have in common: a browser with a page in it, and what the page holds."""
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

from browser import Browser
from recorded import Recorded

KEYS = {'Tab': '\ue004', 'Enter': '\ue007', 'Escape': '\ue00c', 'Home': '\ue011',
        'Left': '\ue012', 'Up': '\ue013', 'Right': '\ue014', 'Down': '\ue015'}


class PageTest(unittest.TestCase):
    """A browser with one window, and a page in it."""

    write_pages = ''  # the program that writes the pages
    ebbtide = ''      # the command

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        subprocess.run([cls.write_pages, str(cls.folder)], check=True)
        cls.browser = Browser().__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.temporary.cleanup()

    def open(self, name):
        path = self.folder / f'{name}.html'
        self.page = path.as_uri()
        self.browser.open(path)
        self.told = Recorded(path)
        self.assertIsNotNone(self.browser.run('return document.documentElement.dataset.ready'))

    def tearDown(self):
        self.assertEqual([], self.browser.log('browser'))
        self.assertEqual({self.page}, set(self.browser.requests()))

    def keep_picture(self, name):
        folder = os.environ.get('EBBTIDE_PAGE_SHOTS')
        if folder:
            self.browser.screenshot(pathlib.Path(folder) / f'{name}.png')

    def text(self, selector):
        return self.browser.run('return document.querySelector(arguments[0]).textContent', selector)

    def texts(self, selector):
        return self.browser.run('return [...document.querySelectorAll(arguments[0])]'
                                '.map((each) => each.textContent)', selector)

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def search(self, word):
        """Types a word in place of what was searched for."""
        before = self.text('#matches')
        self.browser.run('document.querySelector("#search").select()')
        self.browser.type('#search', word)
        self.wait_for(lambda: self.text('#matches') != before, 'the search did not answer')

    def shown_moment(self):
        return int(re.search(r'event ([\d\u2009]+)', self.text('#moment'))[1].replace('\u2009', ''))

    def focus(self, selector):
        self.browser.run('document.querySelector(arguments[0]).focus()', selector)
