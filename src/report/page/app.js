// What the charts, the table and the controls share: the recording, the stretch and the moment that
// are shown, the kinds, the search, the colours.

const BLOCKS_HINT = 'Time across, place in memory up. Ticks are touches; a click opens the site.';

class App {
  constructor(summary, data) {
    this.summary = summary;
    this.recording = new Recording(data, summary);
    this.colours = new Colours();
    this.tip = new Tip();
    this.shown = KINDS.map(() => true);
    this.query = '';
    this.hits = null;  // of each site, whether it is found; null: nothing is searched for
    this.chosenSite = NO_BLOCK;
    this.axis = new Axis(this.recording, this.recording.timesKnown);
    this.view = new View(this.axis);
    this.selectMemory(0);
    this.placeSteps();
    this.showPeakStep();
    this.overview = new Overview(this);
    this.timeline = new Timeline(this);
    this.blockmap = new BlockMap(this);
    this.flame = new Flame(this);
    this.table = new SiteTable(this);
    this.placeAll();
    this.sayBlock(NO_BLOCK);
  }

  // One of the recording's memories (devices).
  selectMemory(space) {
    const {recording} = this;
    this.space = space;
    const numbers = [];
    for (let block = 0; block < recording.count; ++block) {
      if (recording.space[block] === space) numbers.push(block);
    }
    this.blocks = Uint32Array.from(numbers);
    this.memory = new Memory(recording, space);
    this.memory.setAxis(this.axis);
    this.peakEvent = this.summary.spaces[space]?.peak_event ?? 0;
    this.moment = this.peakEvent;
  }

  changeMemory(space) {
    this.selectMemory(space);
    this.blockmap.forget();
    this.placeAll();
    this.redraw();
  }

  setAxis(inMs) {
    const ends = [this.view.low, this.view.high].map((value) => this.axis.eventAt(value));
    this.axis = new Axis(this.recording, inMs);
    this.view.setAxis(this.axis);
    this.memory.setAxis(this.axis);
    this.placeSteps();
    this.view.show(this.axis.ofEvent(ends[0]), this.axis.ofEvent(ends[1]));
    this.placeAll();
    this.redraw();
  }

  placeSteps() {
    this.stepStarts = this.recording.stepStarts.map((event) => this.axis.ofEvent(event));
  }

  // Everything that depends on the memory or the axis.
  placeAll() {
    this.blockmap.placeBlocks();
    this.blockmap.setLayout(this.layoutKind());
    this.table.totals =
        totalsOfSites(this.recording, this.blocks, this.blockmap.begin, this.blockmap.end);
    this.useMoment();
  }

  layoutKind() {
    const chosen = document.getElementById('layout').value;
    return chosen || (hasAddresses(this.recording, this.blocks) ? 'address' : 'packed');
  }

  // What depends on the moment and on the kinds shown.
  useMoment() {
    const uses = usesAt(this.recording, this.blocks, this.moment, this.shown);
    this.table.uses = uses;
    this.table.liveBytes = uses.reduce((sum, use) => sum + use.bytes, 0);
    this.flame.setUses(uses);
  }

  pickMoment(event) {
    this.moment = Math.max(event, 0);
    this.useMoment();
    this.paintTexts();
    this.timeline.paintCursor();
    this.flame.paint();
    this.table.paint();
  }

  search(text) {
    const {recording} = this;
    this.query = text.trim().toLowerCase();
    this.hits = null;
    if (this.query !== '') {
      const found = recording.texts.map((each) => each.toLowerCase().includes(this.query));
      this.hits = recording.sites.map(
          (site) => site.name.toLowerCase().includes(this.query) ||
              site.frames.some((frame) => found[frame]));
    }
    this.paintTexts();
    this.blockmap.paint();
    this.flame.paint();
    this.table.paint();
  }

  toggleKind(kind) {
    this.shown[kind] = !this.shown[kind];
    this.useMoment();
    this.redraw();
    this.paintTexts();
    this.flame.paint();
    this.table.paint();
  }

  chooseSite(site) {
    this.chosenSite = site;
    if (this.hits !== null && !this.hits[site]) {
      document.getElementById('search').value = '';
      this.search('');
    }
    this.tip.hide();
    this.table.reveal(site);
  }

  // The charts over time, once before the next frame.
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.overview.paint();
      this.timeline.paint();
      this.blockmap.paint();
    });
  }

  paintAll() {
    this.overview.paint();
    this.timeline.paint();
    this.blockmap.paint();
    this.paintTexts();
    this.flame.paint();
    this.table.paint();
  }

  showPeakStep() {
    const at = this.axis.ofEvent(this.peakEvent);
    const {stepStarts} = this;
    const last = stepStarts.length - 1;
    if (last < 1) {
      this.view.show(this.axis.low, this.axis.high);
      return;
    }
    const step = Math.min(Math.max(upperBound(stepStarts, at) - 1, 0), last - 1);
    this.view.show(stepStarts[step], stepStarts[step + 1]);
  }

  showSteps() {
    if (this.stepStarts.length > 1)
      this.view.show(this.stepStarts[0], this.stepStarts[this.stepStarts.length - 1]);
  }

  // "event 1 234, 12.30 ms, step 2"
  momentText(event) {
    if (event < 0) return 'before the first event';
    const parts = [`event ${countText(event)}`];
    if (this.recording.timesKnown)
      parts.unshift(instantText(Axis.between(event, ...this.timeColumns())));
    const step = upperBound(this.recording.stepStarts, event);
    if (step > 0 && step < this.recording.stepStarts.length) parts.push(`step ${step}`);
    return parts.join(', ');
  }

  timeColumns() {
    this.times ??= [
      this.recording.times.map((point) => point[0]), this.recording.times.map((point) => point[1])
    ];
    return this.times;
  }

  paintTexts() {
    const total = this.table.liveBytes;
    const atPeak = this.moment === this.peakEvent;
    const text =
        `${atPeak ? 'Peak' : 'Moment'}: ${sizeText(total)} live · ${this.momentText(this.moment)}`;
    document.getElementById('moment').textContent = text;
    document.getElementById('to-peak').disabled = atPeak;
    const short = atPeak ? 'at the peak' : `at ${this.momentText(this.moment)}`;
    document.getElementById('flame-moment').textContent = short;
    document.getElementById('sites-moment').textContent = short;
    const sums = this.memory.atEvent(this.moment);
    for (const [kind, label] of this.legend ?? []) label.textContent = sizeText(sums[kind]);
    this.paintMatches(total);
  }

  paintMatches(total) {
    const box = document.getElementById('matches');
    if (this.hits === null) {
      box.textContent = '';
      return;
    }
    let bytes = 0;
    let sites = 0;
    this.hits.forEach((hit, site) => {
      if (!hit || this.table.totals[site].blocks === 0) return;
      bytes += this.table.uses[site].bytes;
      ++sites;
    });
    box.textContent = `${plural(sites, 'site')} · ${sizeText(bytes)} (${shareText(bytes, total)})`;
  }

  announce(text) {
    document.getElementById('block-said').textContent = text;
  }

  say(event) {
    const sums = this.memory.atEvent(event);
    document.getElementById('moment').textContent =
        `Cursor: ${sizeText(sumShown(sums, this.shown))} live · ${this.momentText(event)}`;
  }

  sayBlock(block) {
    if (block === NO_BLOCK) {
      this.announce(BLOCKS_HINT);
      return;
    }
    const {recording} = this;
    const parts = [
      `${sizeText(recording.bytes[block])} ${KINDS[recording.kind[block]]}`,
      recording.siteName(recording.site[block]),
      plural(recording.touches[block], 'touch', 'touches'),
    ];
    this.announce(`Block ${countText(block)}: ${parts.join(', ')}`);
  }
}
