// Where each block of one memory stands in the picture: bottom and top in bytes.

// By address. Stretches of addresses that no block ever has are left out.
function addressLayout(recording, blocks) {
  const order =
      Uint32Array.from(blocks).sort((a, b) => recording.address[a] - recording.address[b]);
  const low = new Float64Array(recording.count);
  let begin = 0;  // of the stretch: where it begins in the picture, and by address
  let address = 0;
  let end = 0;
  let top = 0;
  for (const block of order) {
    const at = recording.address[block];
    if (at > end || end === 0) {
      begin = top;
      address = at;
    }
    low[block] = begin + at - address;
    end = Math.max(end, at + recording.bytes[block]);
    top = Math.max(top, low[block] + recording.bytes[block]);
  }
  return {low, top};
}

// Holes of a packing, by place; the lowest that is large enough is taken.
class Holes {
  constructor() {
    this.holes = [];
    this.top = 0;
  }

  take(bytes) {
    const most = Math.min(this.holes.length, 4096);
    for (let i = 0; i < most; ++i) {
      const hole = this.holes[i];
      if (hole.bytes < bytes) continue;
      const place = hole.place;
      hole.place += bytes;
      hole.bytes -= bytes;
      if (hole.bytes === 0) this.holes.splice(i, 1);
      return place;
    }
    this.top += bytes;
    return this.top - bytes;
  }

  give(place, bytes) {
    const {holes} = this;
    let low = 0;
    let high = holes.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (holes[middle].place < place)
        low = middle + 1;
      else
        high = middle;
    }
    holes.splice(low, 0, {place, bytes});
    this.join(low);
    if (low > 0) this.join(low - 1);
  }

  join(i) {
    const {holes} = this;
    if (i + 1 >= holes.length || holes[i].place + holes[i].bytes !== holes[i + 1].place) return;
    holes[i].bytes += holes[i + 1].bytes;
    holes.splice(i + 1, 1);
  }
}

// Packed from the bottom up in the order of allocation, whatever the addresses.
function packedLayout(recording, blocks) {
  const frees = Array.from(blocks)
                    .filter((block) => recording.free[block] !== Infinity)
                    .sort((a, b) => recording.free[a] - recording.free[b]);
  const low = new Float64Array(recording.count);
  const holes = new Holes();
  let next = 0;
  for (const block of blocks) {
    while (next < frees.length && recording.free[frees[next]] < recording.alloc[block]) {
      const gone = frees[next++];
      if (recording.bytes[gone] > 0) holes.give(low[gone], recording.bytes[gone]);
    }
    low[block] = recording.bytes[block] > 0 ? holes.take(recording.bytes[block]) : 0;
  }
  return {low, top: holes.top};
}

// Whether addresses were recorded: not all the same.
function hasAddresses(recording, blocks) {
  for (const block of blocks) {
    if (recording.address[block] !== recording.address[blocks[0]]) return true;
  }
  return false;
}
