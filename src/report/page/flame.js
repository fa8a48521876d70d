// Who allocated what is live at a moment: call stacks from the outermost frame down, as wide as
// their bytes.

const ROW = 19;
const STRIP = 4;  // pixels of a frame that show the kinds in it
const NO_KIND = -1;

class FlameNode {
  constructor(text, parent) {
    this.text = text;  // index into Recording::texts, or a string
    this.parent = parent;
    this.depth = parent ? parent.depth + 1 : 0;
    this.bytes = 0;
    this.blocks = 0;
    this.kinds = new Float64Array(KINDS.length);
    this.byText = new Map();
    this.children = [];
  }

  child(text) {
    let found = this.byText.get(text);
    if (!found) {
      found = new FlameNode(text, this);
      this.byText.set(text, found);
      this.children.push(found);
    }
    return found;
  }

  add(use) {
    this.bytes += use.bytes;
    this.blocks += use.blocks;
    for (let kind = 0; kind < KINDS.length; ++kind) this.kinds[kind] += use.kinds[kind];
  }

  // Wide ones first, and where each begins and ends, in bytes.
  settle(begin) {
    this.begin = begin;
    this.children.sort((a, b) => b.bytes - a.bytes);
    let next = begin;
    for (const node of this.children) {
      node.settle(next);
      next += node.bytes;
    }
  }

  // The kind of nearly all of it, or NO_KIND.
  get mainKind() {
    const most = this.kinds.indexOf(Math.max(...this.kinds));
    return this.kinds[most] >= 0.98 * this.bytes ? most : NO_KIND;
  }
}

// `uses`: of each site its bytes, blocks and kinds.
function growTree(recording, uses) {
  const root = new FlameNode('all', null);
  uses.forEach((use, site) => {
    if (use.bytes === 0) return;
    const {frames} = recording.sites[site];
    let node = root;
    node.add(use);
    if (frames.length === 0) {
      node = node.child(recording.siteName(site));
      node.add(use);
    }
    for (let i = frames.length - 1; i >= 0; --i) {
      node = node.child(frames[i]);
      node.add(use);
    }
  });
  root.settle(0);
  return root;
}

class Flame extends Chart {
  constructor(app) {
    super(
        app, 'flamegraph', ROW * 12,
        'Flame graph by call site. Arrows go from frame to frame, Enter ' +
            'zooms in, Escape shows the whole graph.');
    document.getElementById('flame-reset').addEventListener('click', () => this.zoomTo(this.root));
  }

  setUses(uses) {
    const path = this.focus ? this.pathOf(this.focus) : [];
    this.root = growTree(this.app.recording, uses);
    this.focus = this.find(path);
    this.chosen = null;
  }

  pathOf(node) {
    const path = [];
    for (let at = node; at.parent; at = at.parent) path.unshift(at.text);
    return path;
  }

  // The node at the end of a path, or the last that there is.
  find(path) {
    let node = this.root;
    for (const text of path) {
      const next = node.byText.get(text);
      if (!next) break;
      node = next;
    }
    return node;
  }

  nameOf(node) {
    return typeof node.text === 'number' ? this.app.recording.texts[node.text] : node.text;
  }

  depthBelow(node) {
    let depth = node.depth;
    for (const child of node.children) depth = Math.max(depth, this.depthBelow(child));
    return depth;
  }

  paint() {
    const height = (this.depthBelow(this.focus) + 1) * ROW + 2;
    if (height !== this.height) {
      this.height = height;
      this.resize();
    }
    this.rows = [];
    const context = this.start(this.picture);
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    for (let node = this.focus.parent; node; node = node.parent) {
      this.paintFrame(context, node, 0, this.width, true);
    }
    this.paintNode(context, this.focus);
    this.paintChosen();
    const path = document.getElementById('flame-path');
    path.textContent = this.focus.parent ? this.frameText(this.focus) : '';
    document.getElementById('flame-reset').disabled = !this.focus.parent;
  }

  paintNode(context, node) {
    const per = this.width / Math.max(this.focus.bytes, 1);
    const left = (node.begin - this.focus.begin) * per;
    const wide = node.bytes * per;
    if (wide < 0.4) return;
    this.paintFrame(context, node, left, wide, false);
    for (const child of node.children) this.paintNode(context, child);
  }

  paintFrame(context, node, left, wide, above) {
    const {colours, query} = this.app;
    (this.rows[node.depth] ??= []).push({node, left, right: left + wide});
    const name = this.nameOf(node);
    const hit = query !== '' && name.toLowerCase().includes(query);
    const kind = node.mainKind;
    const colour = kind === NO_KIND ? colours.line : colours.kinds[kind];
    const top = node.depth * ROW;
    context.globalAlpha = above ? 0.45 : query !== '' && !hit ? 0.3 : 1;
    context.fillStyle = hit ? colours.hit : colour;
    context.fillRect(left, top, Math.max(wide - 0.75, 0.4), ROW - 1);
    if (kind === NO_KIND && !hit)
      this.paintStrip(context, node, left, top + ROW - 1 - STRIP, wide - 0.75);
    context.globalAlpha = 1;
    if (wide < 34) return;
    context.fillStyle = hit   ? '#ffffff' :
        above || query !== '' ? colours.ink :
                                Colours.inkOn(colour);
    const middle = top + (kind === NO_KIND ? ROW - STRIP : ROW) / 2;
    context.fillText(fittedFrame(context, name, wide - 10), left + 5, middle);
  }

  paintStrip(context, node, left, top, wide) {
    let at = left;
    for (const kind of STACKED) {
      const part = wide * node.kinds[kind] / node.bytes;
      context.fillStyle = this.app.colours.kinds[kind];
      context.fillRect(at, top, part, STRIP);
      at += part;
    }
  }

  frameText(node) {
    return `${this.nameOf(node)} · ${sizeText(node.bytes)} (${
        shareText(node.bytes, this.root.bytes)})`;
  }

  nodeAt(x, y) {
    const row = this.rows[Math.floor(y / ROW)] ?? [];
    const found = row[upperBound(row.map((frame) => frame.left), x) - 1];
    return found && x < found.right ? found.node : null;
  }

  paintChosen() {
    const context = this.start(this.over);
    const frame = this.frameOf(this.chosen);
    if (!frame) return;
    context.strokeStyle = this.app.colours.mark;
    context.lineWidth = 1.5;
    context.strokeRect(
        frame.left + 0.75, frame.node.depth * ROW + 0.75, Math.max(frame.right - frame.left - 2, 1),
        ROW - 2.5);
  }

  frameOf(node) {
    return node ? (this.rows[node.depth] ?? []).find((frame) => frame.node === node) : undefined;
  }

  describe(node) {
    const rows = STACKED.filter((kind) => node.kinds[kind] > 0)
                     .sort((a, b) => node.kinds[b] - node.kinds[a])
                     .map((kind) => [KINDS[kind], sizeText(node.kinds[kind]), kind]);
    const head = element('div');
    head.append(
        element('b', sizeText(node.bytes)),
        ` · ${shareText(node.bytes, this.root.bytes)} · ${plural(node.blocks, 'block')}`);
    return [element('div', this.nameOf(node)), head, Tip.rows(rows)];
  }

  hover(x, y, clientX, clientY) {
    const node = this.nodeAt(x, y);
    if (node !== this.chosen) {
      this.chosen = node;
      this.paintChosen();
    }
    if (node)
      this.app.tip.show(clientX, clientY, ...this.describe(node));
    else
      this.app.tip.hide();
  }

  clicked(x, y) {
    const node = this.nodeAt(x, y);
    if (node) this.zoomTo(node);
  }

  zoomTo(node) {
    this.focus = node;
    this.app.tip.hide();
    this.paint();
  }

  dragged() {}
  wheelTurned() {}
  showAll() {}

  letGo() {
    this.chosen = null;
    super.letGo();
  }

  keyPressed(event) {
    const node = this.chosen ?? this.focus;
    const siblings = node.parent ? node.parent.children : [node];
    const place = siblings.indexOf(node);
    if (event.key === 'ArrowDown')
      this.goTo(node.children[0] ?? node);
    else if (event.key === 'ArrowUp')
      this.goTo(node.parent ?? node);
    else if (event.key === 'ArrowRight')
      this.goTo(siblings[place + 1] ?? node);
    else if (event.key === 'ArrowLeft')
      this.goTo(siblings[place - 1] ?? node);
    else if (event.key === 'Enter')
      this.zoomTo(node);
    else if (event.key === 'Escape' && this.focus.parent)
      this.zoomTo(this.root);
    else
      return false;
    return true;
  }

  goTo(node) {
    this.chosen = node;
    if (!this.frameOf(node)) this.zoomTo(node.parent ?? node);
    this.paintChosen();
    const frame = this.frameOf(node);
    this.box.scrollTop = Math.max(
        0, Math.min(this.box.scrollTop, node.depth * ROW),
        (node.depth + 2) * ROW - this.box.clientHeight);
    const box = this.picture.getBoundingClientRect();
    if (frame) {
      this.app.tip.show(
          box.left + frame.left + 8, box.top + node.depth * ROW + 8, ...this.describe(node));
    }
    this.app.announce(this.frameText(node));
  }
}

// A frame's name in the longest form that fits: with two parts of the path, one, or the function.
function fittedFrame(context, name, most) {
  const two = name.replace(/^\S*\/([^/\s]+\/[^/\s]+)/, '$1');
  const one = two.replace(/^\S*\//, '');
  const none = one.replace(/^\S+:\d+ /, '');
  const fits = [two, one].find((text) => context.measureText(text).width <= most);
  return fits ?? fitted(context, none, most);
}

// As much of `text` as is no wider than `most`.
function fitted(context, text, most) {
  if (context.measureText(text).width <= most) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= most)
      low = middle;
    else
      high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low)}…` : '';
}
