// Memory over time, stacked by kind; above it the whole recording with the stretch that is shown.

// Kinds from the bottom up: what stays, then what comes and goes.
const STACKED = [
  'parameter', 'optimizer state', 'gradient', 'activation', 'temporary', 'workspace', 'input',
  'communication', 'unknown'
].map((kind) => KINDS.indexOf(kind));

class Timeline extends Chart {
  constructor(app) {
    super(
        app, 'timeline', 320,
        'Memory over time by kind. Left and right move the cursor, plus and ' +
            'minus zoom, Enter picks the moment.');
    this.top = 22;
    this.bottom = this.height - 24;
  }

  paint() {
    const {app} = this;
    const columns = Math.max(1, Math.round(this.plotWidth * this.scale));
    const {low, high} = app.view;
    this.columns = app.memory.overColumns(low, high, columns, app.shown);
    this.columnCount = columns;
    this.most = Math.max(this.columns.most, 512) * 1.06;
    const context = this.start(this.picture);
    const ticks = sizeTicks(0, this.most, 6);
    this.paintSizeTicks(context, ticks, (bytes) => this.yOf(bytes), true);
    this.paintAreas(context);
    this.paintSteps(context);
    this.paintFailures(context);
    this.paintPeak(context);
    this.paintTimeTicks(context, this.bottom);
    context.fillStyle = app.colours.line;
    context.fillRect(LEFT, this.bottom, this.plotWidth, 1);
    this.paintCursor();
  }

  yOf(bytes) {
    return this.bottom - bytes / this.most * (this.bottom - this.top);
  }

  paintAreas(context) {
    const {colours, shown} = this.app;
    const count = this.columnCount;
    const wide = this.plotWidth / count;
    let below = new Float64Array(count);
    for (const kind of STACKED) {
      if (!shown[kind]) continue;
      const above = below.slice();
      let any = false;
      for (let i = 0; i < count; ++i) {
        const bytes = this.columns.sums[i * KINDS.length + kind];
        above[i] += bytes;
        any ||= bytes > 0;
      }
      if (any) {
        const path = this.areaPath(below, above, wide);
        context.fillStyle = colours.kinds[kind];
        context.fill(path);
        this.paintSeparator(context, below, wide);
      }
      below = above;
    }
  }

  // Steps, not slopes: memory changes at once.
  areaPath(below, above, wide) {
    const path = new Path2D();
    const count = above.length;
    path.moveTo(LEFT, this.yOf(above[0]));
    for (let i = 0; i < count; ++i) {
      if (i > 0 && above[i] === above[i - 1]) continue;
      path.lineTo(LEFT + i * wide, this.yOf(above[Math.max(i - 1, 0)]));
      path.lineTo(LEFT + i * wide, this.yOf(above[i]));
    }
    path.lineTo(LEFT + count * wide, this.yOf(above[count - 1]));
    path.lineTo(LEFT + count * wide, this.yOf(below[count - 1]));
    for (let i = count - 1; i >= 0; --i) {
      if (i > 0 && below[i] === below[i - 1]) continue;
      path.lineTo(LEFT + i * wide, this.yOf(below[i]));
      if (i > 0) path.lineTo(LEFT + i * wide, this.yOf(below[i - 1]));
    }
    path.closePath();
    return path;
  }

  // A hair of paper between two kinds, for eyes that see their colours alike. Where the edge is
  // hardly ever level, hairs would be all that is seen.
  paintSeparator(context, edge, wide) {
    let changes = 0;
    for (let i = 1; i < edge.length; ++i) changes += edge[i] !== edge[i - 1] ? 1 : 0;
    if (changes > edge.length / 3) return;
    context.strokeStyle = this.app.colours.paper;
    context.lineWidth = 0.75;
    context.beginPath();
    for (let i = 0; i < edge.length; ++i) {
      if (i > 0 && edge[i] === edge[i - 1] && i + 1 < edge.length) continue;
      if (i > 0) context.lineTo(LEFT + i * wide, this.yOf(edge[i - 1]));
      context.lineTo(LEFT + i * wide, this.yOf(edge[i]));
    }
    context.stroke();
  }

  // Where steps are narrow, only those that have room for their number.
  paintSteps(context) {
    const {app} = this;
    const {colours, view, stepStarts} = app;
    const narrow = this.xOf(stepStarts[1]) - this.xOf(stepStarts[0]) < 24;
    context.textBaseline = 'top';
    context.textAlign = 'left';
    context.fillStyle = colours.soft;
    let free = LEFT;
    stepStarts.forEach((value, i) => {
      if (value < view.low || value > view.high) return;
      const x = Math.round(this.xOf(value));
      const label = i + 1 < stepStarts.length ? `step ${i + 1}` : '';
      const end = x + 4 + context.measureText(label).width;
      const fits = label !== '' && x >= free && end <= this.width - RIGHT;
      if (fits || !narrow) this.paintStepLine(context, x, narrow ? this.top - 4 : this.bottom);
      if (!fits) return;
      context.fillText(label, x + 4, 4);
      free = end + 8;
    });
  }

  paintStepLine(context, x, bottom) {
    context.globalAlpha = 0.5;
    context.fillRect(x, 4, 1, bottom - 4);
    context.globalAlpha = 1;
  }

  paintFailures(context) {
    context.fillStyle = this.app.colours.hit;
    for (const [event] of this.app.recording.failures) {
      const x = this.xOf(this.app.axis.ofEvent(event));
      if (x < LEFT || x > this.width - RIGHT) continue;
      context.fillRect(x - 0.75, this.top, 1.5, this.bottom - this.top);
    }
  }

  paintPeak(context) {
    const {app} = this;
    const x = this.xOf(app.axis.ofEvent(app.peakEvent));
    if (x < LEFT - 0.5 || x > this.width - RIGHT + 0.5) return;
    const total = sumShown(app.memory.atEvent(app.peakEvent), app.shown);
    const y = this.yOf(total);
    context.fillStyle = app.colours.mark;
    context.beginPath();
    context.moveTo(x, y - 1);
    context.lineTo(x - 5, y - 9);
    context.lineTo(x + 5, y - 9);
    context.fill();
    const left = x > this.width - RIGHT - 130;
    context.textAlign = left ? 'right' : 'left';
    context.textBaseline = 'middle';
    const text = `peak ${sizeText(total)}`;
    const at = x + (left ? -9 : 9);
    context.lineWidth = 3;
    context.strokeStyle = app.colours.paper;
    context.strokeText(text, at, y - 7);
    context.fillText(text, at, y - 7);
  }

  // The picked moment, and where the keys are.
  paintCursor(at) {
    const {app} = this;
    const context = this.start(this.over);
    const moment = app.axis.ofEvent(app.moment);
    if (app.moment !== app.peakEvent)
      this.paintLine(context, this.xOf(moment), app.colours.accent, []);
    if (at !== undefined) this.paintLine(context, at, app.colours.mark, [3, 3]);
  }

  paintLine(context, x, colour, dashes) {
    if (x < LEFT || x > this.width - RIGHT) return;
    context.strokeStyle = colour;
    context.lineWidth = 1;
    context.setLineDash(dashes);
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, this.top - 4);
    context.lineTo(Math.round(x) + 0.5, this.bottom);
    context.stroke();
    context.setLineDash([]);
  }

  columnAt(x) {
    const column = Math.floor((x - LEFT) / this.plotWidth * this.columnCount);
    return Math.min(Math.max(column, 0), this.columnCount - 1);
  }

  hover(x, y, clientX, clientY) {
    const {app} = this;
    this.cursor = this.valueAt(x);
    this.paintCursor(Math.min(Math.max(x, LEFT), this.width - RIGHT));
    const event = this.columns.event[this.columnAt(x)];
    app.tip.show(clientX, clientY, ...this.describe(event));
  }

  describe(event) {
    const {app} = this;
    const sums = app.memory.atEvent(event);
    const total = sumShown(sums, app.shown);
    const head = element('div');
    head.append(element('b', sizeText(total)), ` live · ${app.momentText(event)}`);
    const rows = STACKED.filter((kind) => app.shown[kind] && sums[kind] > 0)
                     .reverse()
                     .map((kind) => [KINDS[kind], sizeText(sums[kind]), kind]);
    return [head, Tip.rows(rows)];
  }

  clicked(x) {
    this.app.pickMoment(this.columns.event[this.columnAt(x)]);
  }

  letGo() {
    this.app.tip.hide();
    this.paintCursor();
  }

  keyPressed(event) {
    const {app} = this;
    const moves = {ArrowLeft: -1, ArrowRight: 1, PageUp: -40, PageDown: 40};
    if (!event.shiftKey && event.key in moves) {
      const x =
          this.cursor === null ? this.xOf(app.axis.ofEvent(app.moment)) : this.xOf(this.cursor);
      this.moveCursor(x + moves[event.key] * 2);
    } else if (event.key === 'Home') {
      this.moveCursor(LEFT);
    } else if (event.key === 'End') {
      this.moveCursor(this.width - RIGHT);
    } else if (event.key === 'Enter' || event.key === ' ') {
      app.pickMoment(this.columns.event[this.columnAt(this.xOf(this.cursor ?? app.view.low))]);
    } else {
      return super.keyPressed(event);
    }
    return true;
  }

  moveCursor(x) {
    const inside = Math.min(Math.max(x, LEFT), this.width - RIGHT - 0.01);
    const box = this.picture.getBoundingClientRect();
    this.hover(inside, 0, box.left + inside, box.top + 40);
    this.app.say(this.columns.event[this.columnAt(inside)]);
  }
}

class Overview extends Chart {
  constructor(app) {
    super(
        app, 'overview', 44, 'The whole recording. Left and right move the stretch that is shown.');
  }

  range() {
    return this.app.axis;
  }

  paint() {
    const {app} = this;
    const {axis, colours} = app;
    const count = Math.max(1, Math.round(this.plotWidth));
    const {sums, most} = app.memory.overColumns(axis.low, axis.high, count, app.shown);
    const context = this.start(this.picture);
    context.fillStyle = colours.panel;
    context.fillRect(LEFT, 0, this.plotWidth, this.height);
    context.fillStyle = colours.soft;
    context.globalAlpha = 0.55;
    for (let i = 0; i < count; ++i) {
      const total = sumShown(sums.subarray(i * KINDS.length, (i + 1) * KINDS.length), app.shown);
      const high = total / Math.max(most, 1) * (this.height - 4);
      context.fillRect(LEFT + i, this.height - high, 1, high);
    }
    context.globalAlpha = 1;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.fillText('whole', LEFT - 8, this.height / 2);
    this.paintWindow(context);
  }

  paintWindow(context) {
    const {view, colours} = this.app;
    const from = this.xOf(view.low);
    const to = Math.max(this.xOf(view.high), from + 2);
    context.globalAlpha = 0.14;
    context.fillStyle = colours.accent;
    context.fillRect(from, 0, to - from, this.height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1;
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 1), this.height - 1);
  }

  clicked(x) {
    const {view} = this.app;
    const half = (view.high - view.low) / 2;
    const middle = this.valueAt(x);
    view.show(middle - half, middle + half);
    this.app.redraw();
  }

  dragged(place, drag) {
    if (drag.selects) {
      super.dragged(place, drag);
      return;
    }
    const {view} = this.app;
    const by = this.valueAt(place.x) - this.valueAt(drag.lastX);
    view.show(view.low + by, view.high + by);
    this.app.redraw();
  }

  keyPressed(event) {
    const moves = {ArrowLeft: -0.1, ArrowRight: 0.1};
    if (!event.shiftKey && event.key in moves) {
      this.app.view.pan(moves[event.key]);
      this.app.redraw();
      return true;
    }
    return super.keyPressed(event);
  }
}
