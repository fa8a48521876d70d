// How much of each kind is live, at any moment and over any stretch, of one memory.

const CHECKPOINT = 256;  // changes from one known sum to the next

class Memory {
  constructor(recording, space) {
    this.recording = recording;
    const changedBlock = new Int32Array(recording.events + 1).fill(NO_BLOCK);
    let changes = 0;
    for (let block = 0; block < recording.count; ++block) {
      if (recording.space[block] !== space) continue;
      changedBlock[recording.alloc[block]] = block;
      ++changes;
      if (recording.free[block] === Infinity) continue;
      changedBlock[recording.free[block]] = block;
      ++changes;
    }
    this.count = changes;
    this.event = new Uint32Array(changes);
    this.kind = new Uint8Array(changes);
    this.block = new Int32Array(changes);
    this.delta = new Float64Array(changes);
    let at = 0;
    for (let event = 0; event < recording.events; ++event) {
      const block = changedBlock[event];
      if (block === NO_BLOCK) continue;
      this.event[at] = event;
      this.block[at] = block;
      this.kind[at] = recording.kind[block];
      this.delta[at++] =
          recording.alloc[block] === event ? recording.bytes[block] : -recording.bytes[block];
    }
    this.makeCheckpoints();
  }

  makeCheckpoints() {
    const sums = new Float64Array(KINDS.length);
    this.checkpoints = [];
    for (let i = 0; i < this.count; ++i) {
      if (i % CHECKPOINT === 0) this.checkpoints.push(sums.slice());
      sums[this.kind[i]] += this.delta[i];
    }
    if (this.count % CHECKPOINT === 0) this.checkpoints.push(sums.slice());
  }

  // Places the changes on an axis.
  setAxis(axis) {
    this.axis = axis;
    this.x = axis.ofEvents(this.event, this.count);
  }

  // {begin, end}: where on the axis each of this memory's blocks begins and ends.
  lives() {
    const begin = new Float64Array(this.recording.count);
    const end = new Float64Array(this.recording.count).fill(this.axis.high);
    for (let i = 0; i < this.count; ++i) {
      const block = this.block[i];
      if (this.recording.alloc[block] === this.event[i])
        begin[block] = this.x[i];
      else
        end[block] = this.x[i];
    }
    return {begin, end};
  }

  // Bytes of each kind when the first `changes` changes have happened.
  after(changes) {
    const from = Math.floor(changes / CHECKPOINT);
    const sums = this.checkpoints[from].slice();
    for (let i = from * CHECKPOINT; i < changes; ++i) sums[this.kind[i]] += this.delta[i];
    return sums;
  }

  // Bytes of each kind right behind an event.
  atEvent(event) {
    return this.after(upperBound(this.event, event, this.count));
  }

  // For each of `columns` equal parts of [low, high] the composition at that part's largest moment,
  // counting the kinds that `shown` says: {sums: kinds after kinds, column for column; event: of
  // each column's moment, -1 before anything}.
  overColumns(low, high, columns, shown) {
    const kinds = KINDS.length;
    const out = {
      sums: new Float64Array(columns * kinds),
      event: new Float64Array(columns),
      most: 0
    };
    let next = upperBound(this.x, low, this.count);
    const sums = this.after(next);
    let total = 0;
    for (let kind = 0; kind < kinds; ++kind) total += shown[kind] ? sums[kind] : 0;
    for (let column = 0; column < columns; ++column) {
      const end = low + (high - low) * (column + 1) / columns;
      let best = total;
      out.event[column] = next > 0 ? this.event[next - 1] : -1;
      out.sums.set(sums, column * kinds);
      while (next < this.count && this.x[next] <= end) {
        sums[this.kind[next]] += this.delta[next];
        if (shown[this.kind[next]]) total += this.delta[next];
        if (total > best) {
          best = total;
          out.event[column] = this.event[next];
          out.sums.set(sums, column * kinds);
        }
        ++next;
      }
      out.most = Math.max(out.most, best);
    }
    return out;
  }
}

function sumShown(sums, shown) {
  let total = 0;
  for (let kind = 0; kind < KINDS.length; ++kind) total += shown[kind] ? sums[kind] : 0;
  return total;
}
