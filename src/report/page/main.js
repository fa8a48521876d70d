// Fills in the page and connects its controls.

function read(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function byId(id) {
  return document.getElementById(id);
}

function fact(name, value, more) {
  const box = element('div');
  const said = element('dd', value);
  if (more) said.append(' ', element('small', more));
  box.append(element('dt', name), said);
  return box;
}

function showFacts(app) {
  const {summary} = app;
  const space = summary.spaces[app.space];
  const facts = [];
  if (space) {
    facts.push(fact('Peak', sizeText(space.peak_bytes), plural(space.peak_blocks, 'block')));
    const largest = space.kinds.reduce((a, b) => b.bytes > a.bytes ? b : a);
    facts.push(fact('Most of it', largest.kind, shareText(largest.bytes, space.peak_bytes)));
    facts.push(fact('Blocks', countText(space.blocks)));
  }
  facts.push(fact('Sites', countText(summary.sites)));
  if (summary.steps) {
    const {count, launches, median_ms: ms} = summary.steps;
    facts.push(fact('Steps', countText(count), `of ${plural(launches, 'launch', 'launches')}`));
    if (ms !== undefined) facts.push(fact('Step', durationText(ms), 'median'));
  }
  facts.push(fact('Launches', countText(summary.launches)));
  if (summary.failures > 0) facts.push(fact('Refused', countText(summary.failures), 'allocations'));
  byId('facts').replaceChildren(...facts);
}

function showHead(app) {
  const {metadata} = app.summary;
  const program = metadata.program || 'Recording';
  byId('program').textContent = program;
  document.title = `${program} – Ebbtide`;
  const parts = ['gpu', 'driver_version', 'argv', 'pid', 'rank', 'time', 'ebbtide']
                    .filter((key) => metadata[key])
                    .map(
                        (key) => key === 'gpu' || key === 'argv' ?
                            metadata[key] :
                            `${key.replace('_version', '')} ${metadata[key]}`);
  byId('about').textContent = parts.join(' · ');
  const notices = [];
  if (app.summary.truncated)
    notices.push('The recording stops early: the process was killed while it was written.');
  if (app.summary.failures > 0) {
    notices.push(
        `The driver refused ${plural(app.summary.failures, 'allocation')}: the vertical lines.`);
  }
  if (!app.summary.steps) notices.push('No step repeats in this recording.');
  byId('notice').textContent = notices.join(' ');
  byId('notice').hidden = notices.length === 0;
}

function showSmallPrint(app) {
  const {recording} = app;
  const lines = ['Bytes are those that blocks take, in units of 512.'];
  lines.push(
      recording.timesKnown ?
          'Times are the GPU\u2019s, known at every 64th launch or so and interpolated between: ' +
              'every event takes equally long.' :
          'No GPU times were recorded: the axis counts events.');
  lines.push(`A block\u2019s first ${countText(recording.mostListed)} touches are kept here.`);
  byId('small-print').textContent = lines.join(' ');
}

function makeLegend(app) {
  app.legend = new Map();
  const present = new Set(app.recording.kind);
  const buttons = [...STACKED].filter((kind) => present.has(kind)).map((kind) => {
    const button = element('button', KINDS[kind]);
    button.type = 'button';
    button.setAttribute('aria-pressed', 'true');
    button.dataset.kind = KINDS[kind];
    button.prepend(swatch(kind));
    const bytes = element('span');
    button.append(bytes);
    app.legend.set(kind, bytes);
    button.addEventListener('click', () => {
      app.toggleKind(kind);
      button.setAttribute('aria-pressed', String(app.shown[kind]));
    });
    return button;
  });
  byId('legend').replaceChildren(...buttons);
}

function option(value, text) {
  const made = element('option', text);
  made.value = value;
  return made;
}

function connectSelects(app) {
  const axis = byId('axis');
  if (app.recording.timesKnown) axis.append(option('ms', 'GPU time'));
  axis.append(option('events', 'Events'));
  axis.addEventListener('change', () => app.setAxis(axis.value === 'ms'));
  const space = byId('space');
  app.summary.spaces.forEach((each, i) => space.append(option(String(i), each.name)));
  space.hidden = app.summary.spaces.length < 2;
  space.addEventListener('change', () => {
    app.changeMemory(Number(space.value));
    showFacts(app);
    app.paintAll();
  });
  const layout = byId('layout');
  if (hasAddresses(app.recording, app.blocks)) layout.append(option('address', 'By address'));
  layout.append(option('packed', 'Packed'));
  layout.addEventListener('change', () => {
    app.blockmap.setLayout(layout.value);
    app.redraw();
  });
}

function connectButtons(app) {
  const show = (id, action) => byId(id).addEventListener('click', () => {
    action();
    app.redraw();
  });
  show('show-step', () => app.showPeakStep());
  show('show-steps', () => app.showSteps());
  show('show-all', () => app.view.show(app.axis.low, app.axis.high));
  show('blocks-fit', () => app.blockmap.fit());
  show('to-peak', () => app.pickMoment(app.peakEvent));
  for (const id of ['show-step', 'show-steps'])
    byId(id).hidden = app.recording.stepStarts.length < 2;
}

function connectSearch(app) {
  const search = byId('search');
  let waiting = 0;
  search.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => app.search(search.value), 80);
  });
  document.addEventListener('keydown', (event) => {
    const typing =
        event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === '/' && !typing) {
      search.focus();
      search.select();
      event.preventDefault();
    } else if (event.key === 'Escape') {
      search.value = '';
      if (app.query !== '') app.search('');
      app.tip.hide();
    }
  });
}

// Light or dark: as the system has it, until somebody says otherwise.
function connectTheme(app) {
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  const choices = ['system', 'light', 'dark'];
  let choice = 'system';
  const apply = () => {
    const dark = choice === 'dark' || (choice === 'system' && system.matches);
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    const button = byId('theme');
    button.textContent = {system: '◐ Auto', light: '○ Light', dark: '● Dark'}[choice];
    button.setAttribute(
        'aria-label', `Colours: ${choice === 'system' ? 'as the system has them' : choice}`);
    app.colours.read();
    app.paintAll();
  };
  system.addEventListener('change', apply);
  byId('theme').addEventListener('click', () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    apply();
  });
  apply();
}

function start() {
  const app = new App(read('summary'), read('recording'));
  showHead(app);
  showFacts(app);
  showSmallPrint(app);
  makeLegend(app);
  connectSelects(app);
  connectButtons(app);
  connectSearch(app);
  connectTheme(app);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
