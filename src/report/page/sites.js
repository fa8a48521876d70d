// The table of sites.

const ROWS_AT_ONCE = 100;

// What each site has live at a moment: {bytes, blocks, kinds}.
function usesAt(recording, blocks, event, shown) {
  const uses =
      recording.sites.map(() => ({bytes: 0, blocks: 0, kinds: new Float64Array(KINDS.length)}));
  for (const block of blocks) {
    if (!shown[recording.kind[block]] || !recording.isLive(block, event)) continue;
    const use = uses[recording.site[block]];
    use.bytes += recording.bytes[block];
    use.blocks += 1;
    use.kinds[recording.kind[block]] += recording.bytes[block];
  }
  return uses;
}

// Over the whole recording: {blocks, largest, life, touches}; life: the median, on the axis.
function totalsOfSites(recording, blocks, begin, end) {
  const totals =
      recording.sites.map(() => ({blocks: 0, largest: 0, touches: 0, lives: [], kinds: new Set()}));
  for (const block of blocks) {
    const total = totals[recording.site[block]];
    total.blocks += 1;
    total.largest = Math.max(total.largest, recording.bytes[block]);
    total.touches += recording.touches[block];
    total.lives.push(end[block] - begin[block]);
    total.kinds.add(recording.kind[block]);
  }
  for (const total of totals) {
    const lives = Float64Array.from(total.lives).sort();
    total.life = lives.length > 0 ? lives[lives.length >> 1] : 0;
    delete total.lives;
  }
  return totals;
}

class SiteTable {
  constructor(app) {
    this.app = app;
    this.head = document.querySelector('#site-table thead');
    this.body = document.querySelector('#site-table tbody');
    this.more = document.getElementById('sites-more');
    this.sortBy = 'bytes';
    this.falling = true;
    this.limit = ROWS_AT_ONCE;
    this.open = new Set();
    this.columns = [
      {
        key: 'name',
        title: 'Site',
        text: true,
        value: (site) => app.recording.siteName(site).toLowerCase()
      },
      {key: 'kind', title: 'Kind', text: true, value: (site) => this.kindText(site)},
      {
        key: 'bytes',
        title: 'Live',
        hint: 'bytes at the moment',
        value: (site) => this.uses[site].bytes
      },
      {
        key: 'blocks',
        title: 'Blocks',
        hint: 'at the moment',
        value: (site) => this.uses[site].blocks
      },
      {
        key: 'all',
        title: 'Made',
        hint: 'blocks in the whole recording',
        value: (site) => this.totals[site].blocks
      },
      {key: 'largest', title: 'Largest', hint: 'block', value: (site) => this.totals[site].largest},
      {key: 'life', title: 'Life', hint: 'median', value: (site) => this.totals[site].life},
      {key: 'touches', title: 'Touches', hint: 'a block', value: (site) => this.touchesEach(site)},
    ];
    this.makeHead();
    this.more.addEventListener('click', () => {
      this.limit += ROWS_AT_ONCE * 5;
      this.paint();
    });
  }

  makeHead() {
    const row = element('tr');
    for (const column of this.columns) {
      const cell = element('th', undefined, column.text ? 'text' : '');
      cell.scope = 'col';
      const button = element('button', column.title);
      button.type = 'button';
      button.dataset.sort = column.key;
      if (column.hint) button.title = column.hint;
      button.style.textAlign = column.text ? 'left' : 'right';
      button.addEventListener('click', () => this.sort(column));
      cell.append(button);
      row.append(cell);
      column.cell = cell;
    }
    this.head.append(row);
  }

  sort(column) {
    this.falling = this.sortBy === column.key ? !this.falling : !column.text;
    this.sortBy = column.key;
    this.paint();
  }

  touchesEach(site) {
    const total = this.totals[site];
    return total.blocks > 0 ? total.touches / total.blocks : 0;
  }

  kindText(site) {
    const kinds = [...this.totals[site].kinds];
    return kinds.length > 1 ? 'mixed' : kinds.length === 1 ? KINDS[kinds[0]] : '';
  }

  // The sites to be shown, in their order.
  sorted() {
    const {app} = this;
    const column = this.columns.find((each) => each.key === this.sortBy);
    const sites = [];
    for (let site = 0; site < app.recording.sites.length; ++site) {
      if (this.totals[site].blocks > 0 && (app.hits === null || app.hits[site])) sites.push(site);
    }
    const values = new Map(sites.map((site) => [site, column.value(site)]));
    const sign = this.falling ? -1 : 1;
    return sites.sort((a, b) => {
      const [x, y] = [values.get(a), values.get(b)];
      if (x !== y) return x < y ? -sign : sign;
      return this.totals[b].blocks - this.totals[a].blocks || a - b;
    });
  }

  paint() {
    for (const column of this.columns) {
      if (column.key === this.sortBy) {
        column.cell.setAttribute('aria-sort', this.falling ? 'descending' : 'ascending');
      } else {
        column.cell.removeAttribute('aria-sort');
      }
    }
    const sites = this.sorted();
    const rows = [];
    for (const site of sites.slice(0, this.limit)) {
      rows.push(this.row(site));
      if (this.open.has(site)) rows.push(this.stackRow(site));
    }
    this.body.replaceChildren(...rows);
    const shown = Math.min(sites.length, this.limit);
    document.getElementById('sites-count').textContent = shown < sites.length ?
        `${countText(shown)} of ${plural(sites.length, 'site')}` :
        plural(sites.length, 'site');
    this.more.hidden = shown === sites.length;
  }

  row(site) {
    const {app} = this;
    const {recording} = app;
    const use = this.uses[site];
    const total = this.totals[site];
    const row = element('tr', undefined, 'site');
    row.dataset.site = recording.sites[site].id;
    row.classList.toggle('chosen', app.chosenSite === site);
    row.append(this.nameCell(site), this.kindCell(site), this.liveCell(use));
    const texts = [
      countText(use.blocks), countText(total.blocks), sizeText(total.largest),
      app.axis.spanText(0, total.life), this.touchesEach(site).toFixed(1)
    ];
    row.append(...texts.map((text) => element('td', text)));
    row.addEventListener('click', () => this.toggle(site));
    return row;
  }

  nameCell(site) {
    const cell = element('td', undefined, 'text name');
    const button = element('button', undefined, 'open');
    button.type = 'button';
    button.setAttribute('aria-expanded', this.open.has(site));
    button.append(...marked(this.app.recording.siteName(site), this.app.query));
    button.addEventListener('click', (event) => {
      event.stopPropagation();
      this.toggle(site);
      this.body
          .querySelector(`tr[data-site="${CSS.escape(this.app.recording.sites[site].id)}"] button`)
          ?.focus();
    });
    cell.append(button);
    return cell;
  }

  kindCell(site) {
    const cell = element('td', this.kindText(site), 'text');
    const kinds =
        [...this.totals[site].kinds].sort((a, b) => STACKED.indexOf(a) - STACKED.indexOf(b));
    cell.prepend(...kinds.map(swatch));
    if (kinds.length > 1) cell.title = kinds.map((kind) => KINDS[kind]).join(', ');
    return cell;
  }

  liveCell(use) {
    const cell = element('td', `${sizeText(use.bytes)} · ${shareText(use.bytes, this.liveBytes)}`);
    const bar = element('span', undefined, 'share');
    const part = element('i');
    part.style.width = `${this.liveBytes > 0 ? 100 * use.bytes / this.liveBytes : 0}%`;
    bar.append(part);
    cell.append(bar);
    return cell;
  }

  stackRow(site) {
    const {recording, query} = this.app;
    const row = element('tr', undefined, 'stack');
    const cell = element('td');
    cell.colSpan = this.columns.length;
    const {frames, id} = recording.sites[site];
    cell.append(element(
        'div',
        frames.length > 0 ? `Site ${id}, innermost frame first:` :
                            `Site ${id}: its stack was not recorded.`));
    const list = element('ol');
    for (const frame of frames) {
      const item = element('li');
      item.append(...marked(recording.texts[frame], query));
      list.append(item);
    }
    cell.append(list);
    row.append(cell);
    return row;
  }

  toggle(site) {
    if (!this.open.delete(site)) this.open.add(site);
    this.paint();
  }

  // Opens a site's row, whatever the order and the search, and goes there.
  reveal(site) {
    this.open.add(site);
    const place = this.sorted().indexOf(site);
    if (place >= this.limit) this.limit = place + ROWS_AT_ONCE;
    this.paint();
    const row =
        this.body.querySelector(`tr[data-site="${CSS.escape(this.app.recording.sites[site].id)}"]`);
    row?.scrollIntoView({block: 'center'});
    row?.querySelector('button').focus({preventScroll: true});
  }
}

// Text with what was searched for marked.
function marked(text, query) {
  const at = query === '' ? -1 : text.toLowerCase().indexOf(query);
  if (at < 0) return [text];
  return [
    text.slice(0, at), element('mark', text.slice(at, at + query.length)),
    text.slice(at + query.length)
  ];
}
