// Numbers as people read them.

const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

// "12.40 GiB", as the command prints it.
function sizeText(bytes) {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  let value = bytes / 1024;
  let unit = 1;
  while (value >= 1023.995 && unit + 1 < SIZES.length) {
    value /= 1024;
    ++unit;
  }
  return `${value.toFixed(2)} ${SIZES[unit]}`;
}

function countText(count) {
  return Math.round(count).toLocaleString('en-US').replaceAll(',', '\u2009');
}

function shareText(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : '–';
}

function durationText(ms) {
  const size = Math.abs(ms);
  if (size >= 2000) return `${(ms / 1000).toFixed(2)} s`;
  if (size >= 1) return `${ms.toFixed(2)} ms`;
  return `${(ms * 1000).toFixed(1)} µs`;
}

// Of a moment, which differs from the next one by microseconds.
function instantText(ms) {
  return `${ms.toFixed(3)} ms`;
}

function plural(count, noun, nouns = `${noun}s`) {
  return `${countText(count)} ${count === 1 ? noun : nouns}`;
}

// The smallest of 1, 2, 5, 10, 20, 50 ... that is no less than `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5]) {
    if (factor * power >= least * 0.999999) return factor * power;
  }
  return 10 * power;
}

// {values, text}: at most `most` places between low and high with round numbers of bytes.
function sizeTicks(low, high, most) {
  const unit =
      Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(high, 1)) / 10)));
  const scale = 1024 ** unit;
  const step = Math.max(roundStep((high - low) / scale / most), unit === 0 ? 1 : 0);
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  const values = [];
  for (let i = Math.ceil(low / scale / step); i * step * scale <= high; ++i)
    values.push(i * step * scale);
  return {
    values,
    text: (bytes) => bytes === 0 ? '0' : `${(bytes / scale).toFixed(digits)} ${SIZES[unit]}`
  };
}

// The same of milliseconds, or of events.
function timeTicks(low, high, most, inMs) {
  const step = Math.max(roundStep((high - low) / most), inMs ? 1e-6 : 1);
  const values = [];
  for (let i = Math.ceil(low / step); i * step <= high; ++i) values.push(i * step);
  if (!inMs) return {values, text: countText};
  const [scale, unit] = step >= 1000 ? [1000, 's'] : step >= 0.5 ? [1, 'ms'] : [0.001, 'µs'];
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / scale) + 1e-9)));
  return {values, text: (ms) => `${(ms / scale).toFixed(digits)} ${unit}`};
}
