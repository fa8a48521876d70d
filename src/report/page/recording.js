// The recording as typed arrays, read from the columns that the file holds.

const KINDS = [
  'unknown', 'parameter', 'gradient', 'optimizer state', 'activation', 'temporary', 'workspace',
  'input', 'communication'
];
const COPIES = [
  'copy host to device', 'copy device to host', 'copy device to device', 'copy',
  'copy between devices', 'memset'
];
const BLOCK_ALIGNMENT = 512;
const NO_BLOCK = -1;

// LEB128 numbers one after the other.
class ColumnReader {
  constructor(base64) {
    const text = atob(base64 ?? '');
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) this.bytes[i] = text.charCodeAt(i);
    this.at = 0;
  }

  next() {
    const {bytes} = this;
    let byte = bytes[this.at++];
    if (byte < 0x80) return byte;
    let number = byte & 0x7f;
    let scale = 128;
    for (;;) {
      byte = bytes[this.at++];
      if (byte < 0x80) return number + byte * scale;
      number += (byte & 0x7f) * scale;
      scale *= 128;
    }
  }

  nextSigned() {
    const number = this.next();
    return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
  }
}

function readNumbers(base64, count, ArrayType) {
  const reader = new ColumnReader(base64);
  const numbers = new ArrayType(count);
  for (let i = 0; i < count; ++i) numbers[i] = reader.next();
  return numbers;
}

// Numbers that are written as differences.
function readSums(base64, count, ArrayType) {
  const numbers = readNumbers(base64, count, ArrayType);
  for (let i = 1; i < count; ++i) numbers[i] += numbers[i - 1];
  return numbers;
}

// The first index of `sorted` whose number is more than `value`.
function upperBound(sorted, value, length = sorted.length) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle] <= value)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

class Recording {
  constructor(data, summary) {
    const {columns} = data;
    const count = summary.blocks;
    this.events = summary.events;
    this.count = count;
    this.sites = data.sites;
    this.texts = data.texts;
    this.functions = data.functions;
    this.stepStarts = data.step_starts;
    this.phases = data.phases;
    this.failures = data.failures;
    this.timesKnown = data.times_known;
    this.times = data.times;
    this.mostListed = data.listed_touches;
    // A block lives from behind the event `alloc` to the event `free`.
    this.alloc = readSums(columns.alloc, count, Uint32Array);
    this.free = readNumbers(columns.life, count, Float64Array);
    for (let i = 0; i < count; ++i) {
      this.free[i] = this.free[i] === 0 ? Infinity : this.alloc[i] + this.free[i];
    }
    this.bytes = readNumbers(columns.bytes, count, Float64Array);
    for (let i = 0; i < count; ++i) this.bytes[i] *= BLOCK_ALIGNMENT;
    this.site = readNumbers(columns.site, count, Uint32Array);
    this.kind = readNumbers(columns.kind, count, Uint8Array);
    this.space =
        columns.space ? readNumbers(columns.space, count, Uint32Array) : new Uint32Array(count);
    this.readAddresses(columns);
    this.workEvent = readSums(columns.work_event, data.works, Uint32Array);
    this.workWhat = readNumbers(columns.work_what, data.works, Uint32Array);
    this.readTouches(columns);
  }

  readAddresses(columns) {
    const reader = new ColumnReader(columns.address);
    this.address = new Float64Array(this.count);
    let address = 0;
    for (let i = 0; i < this.count; ++i) {
      address += reader.nextSigned();
      this.address[i] = address;
    }
  }

  readTouches(columns) {
    this.touches = readNumbers(columns.touches, this.count, Float64Array);
    this.listedBegin = new Uint32Array(this.count + 1);
    for (let i = 0; i < this.count; ++i) {
      this.listedBegin[i + 1] = this.listedBegin[i] + Math.min(this.touches[i], this.mostListed);
    }
    this.listed = new Uint32Array(this.listedBegin[this.count]);
    this.lastTouch = new Float64Array(this.count);
    const listed = new ColumnReader(columns.listed);
    const last = new ColumnReader(columns.last);
    let work = 0;  // the first one behind the block's allocation
    for (let i = 0; i < this.count; ++i) {
      while (work < this.workEvent.length && this.workEvent[work] < this.alloc[i]) ++work;
      let touch = work;
      for (let at = this.listedBegin[i]; at < this.listedBegin[i + 1]; ++at) {
        touch += listed.next();
        this.listed[at] = touch;
      }
      if (this.touches[i] > this.mostListed) touch += last.next();
      this.lastTouch[i] = this.touches[i] === 0 ? -1 : touch;
    }
  }

  isLive(block, event) {
    return this.alloc[block] <= event && this.free[block] > event;
  }

  workName(work) {
    const what = this.workWhat[work];
    if (what < 6) return COPIES[what];
    return what === 6 ? 'graph' : this.functions[what - 7] ?? `kernel ${what - 7}`;
  }

  siteName(site) {
    return this.sites[site].name;
  }
}

// What a place on the horizontal axis means: the GPU's time, or events.
class Axis {
  constructor(recording, inMs) {
    this.inMs = inMs;
    this.points = inMs ? recording.times :
                         [[0, 0], [Math.max(recording.events, 1), Math.max(recording.events, 1)]];
    this.pointEvents = this.points.map((point) => point[0]);
    this.pointValues = this.points.map((point) => point[1]);
    this.low = this.pointValues[0];
    this.high = this.pointValues[this.pointValues.length - 1];
  }

  static between(value, from, to) {
    const next = Math.min(Math.max(upperBound(from, value), 1), from.length - 1);
    const span = from[next] - from[next - 1];
    const part = span > 0 ? Math.min(Math.max((value - from[next - 1]) / span, 0), 1) : 0;
    return to[next - 1] + part * (to[next] - to[next - 1]);
  }

  ofEvent(event) {
    return event === Infinity ? this.high : Axis.between(event, this.pointEvents, this.pointValues);
  }

  // The event that is being or has just been when the axis is at `value`.
  eventAt(value) {
    return Math.floor(Axis.between(value, this.pointValues, this.pointEvents) + 1e-6);
  }

  // Of ascending events, faster than one by one.
  ofEvents(events, count) {
    const values = new Float64Array(count);
    let next = 1;
    for (let i = 0; i < count; ++i) {
      while (next + 1 < this.pointEvents.length && this.pointEvents[next] < events[i]) ++next;
      const begin = this.pointEvents[next - 1];
      const span = this.pointEvents[next] - begin;
      const part = span > 0 ? Math.min(Math.max((events[i] - begin) / span, 0), 1) : 0;
      values[i] =
          this.pointValues[next - 1] + part * (this.pointValues[next] - this.pointValues[next - 1]);
    }
    return values;
  }

  text(value) {
    return this.inMs ? instantText(value) : `event ${countText(value)}`;
  }

  spanText(from, to) {
    const span = to - from;
    return this.inMs ? durationText(span) : plural(Math.round(span), 'event');
  }
}
