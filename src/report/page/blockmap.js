// The blocks themselves: time across, place in memory up. They are painted into a buffer of pixels,
// with the block of each pixel beside it, so that a hundred thousand cost what the pixels cost and
// the pointer finds its block at once.

class BlockMap extends Chart {
  constructor(app) {
    super(
        app, 'blockmap', 380,
        'Blocks by time and place in memory. Arrows go from block to block, ' +
            'plus and minus zoom, Control with up and down zooms in height, Enter shows the site.');
    this.top = 6;
    this.bottom = this.height - 24;
    this.layouts = new Map();
    this.block = NO_BLOCK;
  }

  // Of the memory that is shown; `kind`: 'address' or 'packed'.
  setLayout(kind) {
    const {app} = this;
    if (!this.layouts.has(kind)) {
      const make = kind === 'address' ? addressLayout : packedLayout;
      this.layouts.set(kind, make(app.recording, app.blocks));
    }
    this.layout = this.layouts.get(kind);
    this.fit();
  }

  forget() {
    this.layouts.clear();
    this.block = NO_BLOCK;
  }

  fit() {
    this.low = 0;
    this.high = Math.max(this.layout.top, 512);
  }

  placeBlocks() {
    Object.assign(this, this.app.memory.lives());
  }

  paint() {
    const context = this.start(this.picture);
    this.paintSizeTicks(
        context, sizeTicks(this.low, this.high, 7), (bytes) => this.yOf(bytes), false);
    this.rasterize(context);
    this.paintTimeTicks(context, this.bottom);
    context.strokeStyle = this.app.colours.line;
    context.strokeRect(LEFT - 0.5, this.top - 0.5, this.plotWidth + 1, this.bottom - this.top + 1);
    this.paintOutline();
  }

  yOf(bytes) {
    return this.bottom - (bytes - this.low) / (this.high - this.low) * (this.bottom - this.top);
  }

  bytesAt(y) {
    return this.low + (this.bottom - y) / (this.bottom - this.top) * (this.high - this.low);
  }

  rasterize(context) {
    const width = Math.max(1, Math.round(this.plotWidth * this.scale));
    const height = Math.max(1, Math.round((this.bottom - this.top) * this.scale));
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.blockOf = new Int32Array(width * height);
    }
    this.pixels.fill(Colours.pixel(this.app.colours.panel, 1));
    this.blockOf.fill(NO_BLOCK);
    const {view, blocks} = this.app;
    const perX = width / (view.high - view.low);
    const perY = height / (this.high - this.low);
    for (let i = 0; i < blocks.length; ++i) {
      const block = blocks[i];
      if (this.begin[block] > view.high) break;
      if (this.end[block] >= view.low) this.fillBlock(block, view.low, perX, perY, width, height);
    }
    context.putImageData(
        this.image, Math.round(LEFT * this.scale), Math.round(this.top * this.scale));
  }

  fillBlock(block, viewLow, perX, perY, width, height) {
    const {recording, colours, shown, hits} = this.app;
    const low = this.layout.low[block];
    const high = low + recording.bytes[block];
    const kind = recording.kind[block];
    if (high <= this.low || low >= this.high || !shown[kind] || high === low) return;
    const left = Math.max(0, Math.floor((this.begin[block] - viewLow) * perX));
    const right =
        Math.min(width, Math.max(left + 1, Math.floor((this.end[block] - viewLow) * perX)));
    const top = Math.max(0, Math.floor((this.high - high) * perY));
    const bottom = Math.min(height, Math.max(top + 1, Math.floor((this.high - low) * perY)));
    const faint = hits !== null && !hits[recording.site[block]];
    const colour = faint ? colours.kindFaint[kind] : colours.kindPixels[kind][block % 3];
    const edge = faint ? colour : colours.kindEdges[kind];
    const edged = right - left > 3 && bottom - top > 3;
    for (let y = top; y < bottom; ++y) {
      const row = y * width;
      this.pixels.fill(edged && y === top ? edge : colour, row + left, row + right);
      this.blockOf.fill(block, row + left, row + right);
      if (edged) this.pixels[row + left] = edge;
    }
  }

  blockAt(x, y) {
    const column = Math.floor((x - LEFT) * this.scale);
    const row = Math.floor((y - this.top) * this.scale);
    if (column < 0 || row < 0 || column >= this.image.width || row >= this.image.height)
      return NO_BLOCK;
    return this.blockOf[row * this.image.width + column];
  }

  // The chosen block's frame, and a tick at each of its touches.
  paintOutline() {
    const context = this.start(this.over);
    const {block} = this;
    if (block === NO_BLOCK) return;
    const {recording, colours, axis} = this.app;
    context.save();
    context.beginPath();
    context.rect(LEFT, this.top, this.plotWidth, this.bottom - this.top);
    context.clip();
    const left = this.xOf(this.begin[block]);
    const right = Math.max(this.xOf(this.end[block]), left + 2);
    const top = this.yOf(this.layout.low[block] + recording.bytes[block]);
    const bottom = Math.max(this.yOf(this.layout.low[block]), top + 2);
    // On any ground: the mark with paper around it.
    for (const [colour, wide] of [[colours.paper, 4], [colours.mark, 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.strokeRect(left, top, right - left, bottom - top);
    }
    const to = recording.listedBegin[block + 1];
    for (let at = recording.listedBegin[block]; at < to; ++at) {
      const x = this.xOf(axis.ofEvent(recording.workEvent[recording.listed[at]]));
      context.fillStyle = colours.paper;
      context.fillRect(Math.round(x) - 1, bottom, 3, 8);
      context.fillStyle = colours.mark;
      context.fillRect(Math.round(x), bottom, 1, 7);
    }
    context.restore();
  }

  describe(block) {
    const {recording, axis} = this.app;
    const head = element('div');
    head.append(
        swatch(recording.kind[block]), element('b', sizeText(recording.bytes[block])),
        ` ${KINDS[recording.kind[block]]} · block ${countText(block)}`);
    const site = element('div', recording.siteName(recording.site[block]));
    const ends = recording.free[block] === Infinity ? 'never freed' : axis.text(this.end[block]);
    const rows = [
      ['life', axis.spanText(this.begin[block], this.end[block])],
      ['from', axis.text(this.begin[block])],
      ['to', ends],
      ['address', `0x${recording.address[block].toString(16)}`],
      ['touches', this.touchText(block)],
    ];
    return [head, site, Tip.rows(rows), ...this.describeTouches(block)];
  }

  touchText(block) {
    return this.app.recording.touches[block] === 0 ? 'never' :
                                                     countText(this.app.recording.touches[block]);
  }

  // The first few by name, and the last.
  describeTouches(block) {
    const {recording, axis} = this.app;
    const begin = recording.listedBegin[block];
    const end = recording.listedBegin[block + 1];
    const line = (work) => element(
        'div',
        `${axis.text(axis.ofEvent(recording.workEvent[work]))}  ` +
            shorten(recording.workName(work), 90),
        'soft');
    const lines = [];
    for (let at = begin; at < Math.min(end, begin + 5); ++at)
      lines.push(line(recording.listed[at]));
    const more = recording.touches[block] - lines.length;
    if (more > 1) lines.push(element('div', `… ${countText(more - 1)} more …`, 'soft'));
    if (more > 0) lines.push(line(recording.lastTouch[block]));
    return lines;
  }

  hover(x, y, clientX, clientY) {
    const block = this.blockAt(x, y);
    this.cursor = this.valueAt(x);
    if (block !== this.block) {
      this.block = block;
      this.paintOutline();
      this.app.sayBlock(block);
    }
    if (block === NO_BLOCK)
      this.app.tip.hide();
    else
      this.app.tip.show(clientX, clientY, ...this.describe(block));
  }

  clicked(x, y) {
    const block = this.blockAt(x, y);
    if (block !== NO_BLOCK) this.app.chooseSite(this.app.recording.site[block]);
  }

  letGo() {
    this.app.tip.hide();
  }

  dragged(place, drag) {
    if (!drag.selects) this.panHeight((place.y - drag.lastY) / (this.bottom - this.top));
    super.dragged(place, drag);
  }

  showHeight(low, high) {
    const span = Math.min(Math.max(high - low, 4096), Math.max(this.layout.top, 512));
    this.low = Math.min(Math.max(low, 0), Math.max(this.layout.top, 512) - span);
    this.high = this.low + span;
  }

  panHeight(part) {
    const by = (this.high - this.low) * part;
    this.showHeight(this.low + by, this.high + by);
  }

  zoomHeight(factor, around) {
    this.showHeight(around - (around - this.low) * factor, around + (this.high - around) * factor);
  }

  zoomed(factor, x, y) {
    super.zoomed(factor, x);
    this.zoomHeight(factor, this.bytesAt(y));
  }

  showAll() {
    this.fit();
    super.showAll();
  }

  keyPressed(event) {
    const steps = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
    const step = steps[event.key];
    if (step && event.ctrlKey && step[1] !== 0) {
      this.zoomHeight(step[1] < 0 ? 1 / 1.6 : 1.6, (this.low + this.high) / 2);
      this.app.redraw();
    } else if (step && event.shiftKey && step[1] !== 0) {
      this.panHeight(-step[1] * 0.15);
      this.app.redraw();
    } else if (step && !event.shiftKey) {
      this.goTo(this.neighbour(step[0], step[1]));
    } else if (event.key === 'Enter' && this.block !== NO_BLOCK) {
      this.app.chooseSite(this.app.recording.site[this.block]);
    } else {
      return super.keyPressed(event);
    }
    return true;
  }

  // The next other block on the way from the middle of the chosen one's visible part.
  neighbour(right, down) {
    const {width, height} = this.image;
    let [x, y] = this.middleOf(this.block) ?? [width >> 1, height >> 1];
    const from = this.block;
    while (x >= 0 && y >= 0 && x < width && y < height) {
      const block = this.blockOf[y * width + x];
      if (block !== NO_BLOCK && block !== from) return block;
      x += right;
      y += down;
    }
    return from;
  }

  // In pixels of the buffer, or null where it is out of sight.
  middleOf(block) {
    if (block === NO_BLOCK) return null;
    const {width, height} = this.image;
    const clip = (value, most) => Math.min(Math.max(value, 0), most - 1);
    const left = (this.xOf(this.begin[block]) - LEFT) * this.scale;
    const right = (this.xOf(this.end[block]) - LEFT) * this.scale;
    const low = this.layout.low[block];
    const top = (this.yOf(low + this.app.recording.bytes[block]) - this.top) * this.scale;
    const bottom = (this.yOf(low) - this.top) * this.scale;
    if (right < 0 || left > width || bottom < 0 || top > height) return null;
    return [
      Math.floor((clip(left, width) + clip(right, width)) / 2),
      Math.floor((clip(top, height) + clip(bottom, height)) / 2)
    ];
  }

  goTo(block) {
    if (block === NO_BLOCK) return;
    this.block = block;
    this.paintOutline();
    this.app.sayBlock(block);
    const [x, y] = this.middleOf(block) ?? [0, 0];
    const box = this.picture.getBoundingClientRect();
    this.app.tip.show(
        box.left + LEFT + x / this.scale, box.top + this.top + y / this.scale,
        ...this.describe(block));
  }
}

function shorten(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
