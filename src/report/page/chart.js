// What the charts have in common: two canvases (the picture, and what follows the pointer), the
// shared stretch of the horizontal axis, pointer, wheel and keys.

const LEFT = 76;  // pixels for the scale
const RIGHT = 12;
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

// The stretch of the axis that all charts show.
class View {
  constructor(axis) {
    this.setAxis(axis);
  }

  setAxis(axis) {
    this.axis = axis;
    this.low = axis.low;
    this.high = axis.high;
  }

  get least() {
    return (this.axis.high - this.axis.low) * 1e-7;
  }

  show(low, high) {
    const {axis} = this;
    const span = Math.min(Math.max(high - low, this.least), axis.high - axis.low);
    const begin = Math.min(Math.max(low, axis.low), axis.high - span);
    this.low = begin;
    this.high = begin + span;
  }

  zoom(factor, around) {
    this.show(around - (around - this.low) * factor, around + (this.high - around) * factor);
  }

  pan(part) {
    const by = (this.high - this.low) * part;
    this.show(this.low + by, this.high + by);
  }
}

class Chart {
  // app: what all charts share (main.js).
  constructor(app, id, height, label) {
    this.app = app;
    this.height = height;
    this.box = document.getElementById(id);
    this.picture = element('canvas');
    this.over = element('canvas', undefined, 'over');
    this.picture.tabIndex = 0;
    this.picture.setAttribute('role', 'application');
    this.picture.setAttribute('aria-roledescription', 'chart');
    this.picture.setAttribute('aria-label', label);
    this.box.append(this.picture, this.over);
    this.cursor = null;
    this.resize();
    new ResizeObserver(() => this.boxChanged()).observe(this.box);
    this.listen();
  }

  // The first report comes when nothing has changed yet.
  boxChanged() {
    if (this.boxWidth === this.box.clientWidth && this.scale === window.devicePixelRatio) return;
    this.resize();
    this.paint();
  }

  resize() {
    this.boxWidth = this.box.clientWidth;
    this.scale = window.devicePixelRatio;
    this.width = Math.max(this.boxWidth, LEFT + RIGHT + 40);
    for (const canvas of [this.picture, this.over]) {
      canvas.width = Math.round(this.width * this.scale);
      canvas.height = Math.round(this.height * this.scale);
      canvas.style.height = `${this.height}px`;
    }
  }

  // A clean canvas, in CSS pixels.
  start(canvas) {
    const context = canvas.getContext('2d');
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = FONT;
    return context;
  }

  get plotWidth() {
    return this.width - LEFT - RIGHT;
  }

  xOf(value) {
    const {low, high} = this.range();
    return LEFT + (value - low) / (high - low) * this.plotWidth;
  }

  valueAt(x) {
    const {low, high} = this.range();
    return low + Math.min(Math.max((x - LEFT) / this.plotWidth, 0), 1) * (high - low);
  }

  // The stretch that this chart shows.
  range() {
    return this.app.view;
  }

  listen() {
    const canvas = this.picture;
    canvas.addEventListener('pointermove', (event) => this.pointerMoved(event));
    canvas.addEventListener('pointerleave', () => {
      if (!this.drag) this.letGo();
    });
    canvas.addEventListener('pointerdown', (event) => this.pointerDown(event));
    canvas.addEventListener('pointerup', (event) => this.pointerUp(event));
    canvas.addEventListener('pointercancel', () => {
      this.drag = null;
    });
    canvas.addEventListener('wheel', (event) => this.wheelTurned(event), {passive: false});
    canvas.addEventListener('dblclick', () => this.showAll());
    canvas.addEventListener('keydown', (event) => {
      if (event.altKey || event.metaKey || !this.keyPressed(event)) return;
      event.preventDefault();
      event.stopPropagation();
    });
    canvas.addEventListener('blur', () => this.letGo());
  }

  place(event) {
    const box = this.picture.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  }

  pointerDown(event) {
    if (event.button !== 0) return;
    this.picture.setPointerCapture(event.pointerId);
    const {x, y} = this.place(event);
    this.drag = {x, y, lastX: x, lastY: y, moved: false, selects: event.shiftKey};
  }

  pointerMoved(event) {
    const place = this.place(event);
    if (this.drag) {
      const {drag} = this;
      drag.moved ||= Math.abs(place.x - drag.x) + Math.abs(place.y - drag.y) > 4;
      if (drag.moved) {
        this.dragged(place, drag);
        drag.lastX = place.x;
        drag.lastY = place.y;
        this.app.tip.hide();
        return;
      }
    }
    this.hover(place.x, place.y, event.clientX, event.clientY);
  }

  dragged(place, drag) {
    if (drag.selects) {
      this.paintSelection(drag.x, place.x);
      return;
    }
    this.app.view.pan((drag.lastX - place.x) / this.plotWidth);
    this.app.redraw();
  }

  paintSelection(from, to) {
    const context = this.start(this.over);
    context.globalAlpha = 0.18;
    context.fillStyle = this.app.colours.accent;
    context.fillRect(Math.min(from, to), 0, Math.abs(to - from), this.height);
    context.globalAlpha = 1;
  }

  pointerUp(event) {
    const {drag} = this;
    this.drag = null;
    if (!drag) return;
    const place = this.place(event);
    if (!drag.moved) {
      this.clicked(place.x, place.y);
    } else if (drag.selects) {
      const ends = [this.valueAt(drag.x), this.valueAt(place.x)].sort((a, b) => a - b);
      this.app.view.show(ends[0], ends[1]);
      this.app.redraw();
    }
  }

  wheelTurned(event) {
    const {x, y} = this.place(event);
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey || event.metaKey) {
      this.zoomed(Math.exp(event.deltaY * 0.004), x, y);
    } else if (sideways || event.shiftKey) {
      this.app.view.pan((sideways ? event.deltaX : event.deltaY) / this.plotWidth);
    } else {
      return;  // the page scrolls
    }
    event.preventDefault();
    this.app.redraw();
  }

  zoomed(factor, x) {
    this.app.view.zoom(factor, this.valueAt(x));
  }

  showAll() {
    this.app.view.show(this.app.axis.low, this.app.axis.high);
    this.app.redraw();
  }

  // Whether the key meant something here.
  keyPressed(event) {
    const {view} = this.app;
    const middle = this.cursor ?? (view.low + view.high) / 2;
    if (event.shiftKey && event.key === 'ArrowLeft')
      view.pan(-0.15);
    else if (event.shiftKey && event.key === 'ArrowRight')
      view.pan(0.15);
    else if (event.key === '+' || event.key === '=')
      view.zoom(1 / 1.6, middle);
    else if (event.key === '-')
      view.zoom(1.6, middle);
    else if (event.key === '0')
      view.show(this.app.axis.low, this.app.axis.high);
    else if (event.key === 'p' || event.key === 'P')
      this.app.pickMoment(this.app.peakEvent);
    else
      return false;
    this.app.redraw();
    return true;
  }

  hover() {}
  clicked() {}

  letGo() {
    this.start(this.over);
    this.app.tip.hide();
  }

  // The axes' lines and numbers. `sizes`: sizeTicks of the vertical axis, `yOf` its place.
  paintTimeTicks(context, bottom) {
    const {colours, view, axis} = this.app;
    const ticks =
        timeTicks(view.low, view.high, Math.max(2, Math.floor(this.plotWidth / 110)), axis.inMs);
    context.fillStyle = colours.soft;
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (const value of ticks.values) {
      const x = Math.round(this.xOf(value)) + 0.5;
      context.fillText(
          ticks.text(value), Math.min(Math.max(x, LEFT + 18), this.width - RIGHT - 18), bottom + 5);
      context.fillRect(x - 0.5, bottom, 1, 3);
    }
  }

  paintSizeTicks(context, ticks, yOf, withLines) {
    const {colours} = this.app;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const value of ticks.values) {
      const y = Math.round(yOf(value)) + 0.5;
      if (withLines) {
        context.fillStyle = colours.grid;
        context.fillRect(LEFT, y - 0.5, this.plotWidth, 1);
      }
      context.fillStyle = colours.soft;
      context.fillText(ticks.text(value), LEFT - 8, y);
    }
  }
}

// The box that follows the pointer.
class Tip {
  constructor() {
    this.box = document.getElementById('tip');
  }

  show(x, y, ...parts) {
    this.box.replaceChildren(...parts);
    this.box.hidden = false;
    const {offsetWidth, offsetHeight} = this.box;
    const left = x + 16 + offsetWidth > window.innerWidth ? x - 16 - offsetWidth : x + 16;
    const top = y + 16 + offsetHeight > window.innerHeight ? y - 16 - offsetHeight : y + 16;
    this.box.style.left = `${Math.max(4, left)}px`;
    this.box.style.top = `${Math.max(4, top)}px`;
  }

  hide() {
    this.box.hidden = true;
  }

  static rows(pairs) {
    const table = element('table');
    for (const [name, value, kind] of pairs) {
      const row = element('tr');
      const first = element('td', name);
      if (kind !== undefined) first.prepend(swatch(kind));
      row.append(first, element('td', value));
      table.append(row);
    }
    return table;
  }
}
