// Colours of the page's style sheet, for what is painted.

class Colours {
  constructor() {
    this.read();
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ['paper', 'panel', 'ink', 'soft', 'line', 'grid', 'accent', 'hit', 'mark']) {
      this[name] = colour(name);
    }
    this.kinds = KINDS.map((kind) => colour(`kind-${kind.replace(' ', '-')}`));
    // Three shades, so that neighbours of a kind can be told apart where no edge fits.
    this.kindPixels =
        this.kinds.map((text) => [1, 0.93, 0.86].map((light) => Colours.pixel(text, light)));
    this.kindEdges = this.kinds.map((text) => Colours.pixel(text, 0.72));
    this.kindFaint = this.kinds.map((text) => Colours.faint(text, this.paper));
    this.hitPixel = Colours.pixel(this.hit, 1);
  }

  static parts(text) {
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  }

  // As a word of image data: little-endian, alpha on top.
  static word([red, green, blue]) {
    return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
  }

  static pixel(text, light) {
    return Colours.word(Colours.parts(text).map((part) => Math.round(part * light)));
  }

  static faint(text, paper) {
    const ground = Colours.parts(paper);
    return Colours.word(
        Colours.parts(text).map((part, i) => Math.round(ground[i] + (part - ground[i]) * 0.16)));
  }

  // Ink that can be read on a kind's colour.
  static inkOn(text) {
    const [red, green, blue] = Colours.parts(text);
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? '#15181c' : '#ffffff';
  }
}

function swatch(kind) {
  const box = document.createElement('span');
  box.className = 'swatch';
  box.style.background = `var(--kind-${KINDS[kind].replace(' ', '-')})`;
  return box;
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
