"""A headless Chromium, driven through chromedriver by the WebDriver protocol: plain HTTP.

  with Browser() as browser:
      browser.open(path)
      browser.run('return document.title')
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'
NAMES = ('chromium', 'chromium-browser', 'google-chrome')
START_SECONDS = 30
# No proxy stands between us and a port of our own.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class BrowserError(Exception):
    """The browser or the page in it answered with an error."""


def missing():
    """What of a browser is missing here, or None."""
    if not any(shutil.which(name) for name in NAMES):
        return 'no Chromium is installed (Debian: chromium)'
    if not shutil.which('chromedriver'):
        return 'no chromedriver is installed (Debian: chromium-driver)'
    return None


class Browser:
    """One window. `width` and `height`: of the page's area, in CSS pixels."""

    def __init__(self, width=1440, height=1000):
        self.size = (width, height)
        self.session = None

    def __enter__(self):
        # Port 0: the driver picks one and says which.
        self.driver = subprocess.Popen(['chromedriver', '--port=0'], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            self.address = f'http://127.0.0.1:{self._port()}'
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.session:
            try:
                self.call('DELETE', '')
            except BrowserError:
                pass
        self.driver.terminate()
        self.driver.wait()
        self.driver.stdout.close()

    def _port(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            line = self.driver.stdout.readline()
            if not line:
                break
            if 'successfully on port' in line:
                return int(line.rsplit('port', 1)[1].strip(' .\n'))
        raise BrowserError('chromedriver did not start')

    def _begin(self):
        arguments = ['--headless=new', '--disable-gpu', '--hide-scrollbars',
                     '--force-device-scale-factor=1', '--window-size=%d,%d' % self.size]
        if os.getuid() == 0:
            arguments.append('--no-sandbox')
        binary = next(path for path in map(shutil.which, NAMES) if path)
        options = {'args': arguments, 'binary': binary}
        wanted = {'goog:chromeOptions': options,
                  'goog:loggingPrefs': {'browser': 'ALL', 'performance': 'ALL'}}
        answer = self.call('POST', '/session', {'capabilities': {'alwaysMatch': wanted}})
        self.session = answer['sessionId']
        self.resize(*self.size)

    def call(self, method, path, body=None):
        """An answer's value. `path`: behind the session's, or the whole one before there is one."""
        if self.session:
            path = f'/session/{self.session}{path}'
        data = json.dumps(body or {}).encode() if method == 'POST' else None
        request = urllib.request.Request(self.address + path, data, method=method)
        request.add_header('Content-Type', 'application/json')
        try:
            with DIRECT.open(request, timeout=120) as answer:
                return json.load(answer)['value']
        except urllib.error.HTTPError as error:
            raise BrowserError(json.load(error)['value']['message']) from error
        except OSError as error:
            raise BrowserError(str(error)) from error

    def resize(self, width, height):
        # In this mode a window has no frame, but bars of its own in some versions.
        self.call('POST', '/window/rect', {'width': width, 'height': height})
        inner = self.run('return [innerWidth, innerHeight]')
        self.call('POST', '/window/rect', {'width': 2 * width - inner[0],
                                           'height': 2 * height - inner[1]})

    def open(self, path):
        self.call('POST', '/url', {'url': pathlib.Path(path).resolve().as_uri()})

    def run(self, script, *arguments):
        """What a script in the page returns."""
        return self.call('POST', '/execute/sync', {'script': script, 'args': list(arguments)})

    def find(self, selector):
        found = self.call('POST', '/element', {'using': 'css selector', 'value': selector})
        return found[ELEMENT]

    def text(self, selector):
        return self.call('GET', f'/element/{self.find(selector)}/text')

    def click(self, selector):
        self.call('POST', f'/element/{self.find(selector)}/click')

    def type(self, selector, text):
        self.call('POST', f'/element/{self.find(selector)}/value', {'text': text})

    def press(self, key, *held):
        """A key, with others held, where the focus is."""
        downs = [{'type': 'keyDown', 'value': each} for each in (*held, key)]
        ups = [{'type': 'keyUp', 'value': each} for each in (key, *reversed(held))]
        self._act({'type': 'key', 'id': 'keys', 'actions': downs + ups})

    def point(self, selector, x, y, click=False):
        """Moves the pointer to a place inside an element, and presses there."""
        self.run('document.querySelector(arguments[0]).scrollIntoView({block: "nearest", '
                 'behavior: "instant"})', selector)
        left, top = self.run('const box = document.querySelector(arguments[0])'
                             '.getBoundingClientRect(); return [box.left, box.top]', selector)
        actions = [{'type': 'pointerMove', 'duration': 0,
                    'x': round(left + x), 'y': round(top + y)}]
        if click:
            actions += [{'type': 'pointerDown', 'button': 0}, {'type': 'pointerUp', 'button': 0}]
        self._act({'type': 'pointer', 'id': 'mouse', 'parameters': {'pointerType': 'mouse'},
                   'actions': actions})

    def _act(self, source):
        self.call('POST', '/actions', {'actions': [source]})

    def log(self, kind):
        """What the console ('browser') or the network and more ('performance') has told since."""
        return self.call('POST', '/se/log', {'type': kind})

    def requests(self):
        """Addresses that were asked for since the last look."""
        addresses = []
        for entry in self.log('performance'):
            message = json.loads(entry['message'])['message']
            if message['method'] == 'Network.requestWillBeSent':
                addresses.append(message['params']['request']['url'])
        return addresses

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call('GET', '/screenshot')))
