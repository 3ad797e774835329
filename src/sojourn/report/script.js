"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const data = JSON.parse($("#data").textContent);

  // All text goes through textContent: names of symbols and ids are never read as markup.
  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // Theme: as the system has it, light, dark.
  const themes = ["auto", "light", "dark"];
  const themeButton = $("#theme");
  const showTheme = () => {
    const label = `Theme: ${document.documentElement.dataset.theme || "auto"}`;
    $("span", themeButton).textContent = label;
    themeButton.setAttribute("aria-label", label);
  };
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    const root = document.documentElement;
    const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    try { localStorage.setItem("sojourn-theme", next); } catch {}
    showTheme();
    paint();
  });
  showTheme();

  // The table: sorting and filtering.
  const body = $("#table tbody");
  const rows = [...body.rows];
  const headers = $$("#table thead th");
  const collator = new Intl.Collator(undefined, { numeric: true });
  const valueOf = (cell, kind) => kind === "number"
    ? Number(cell.dataset.v ?? cell.textContent) : cell.textContent;
  headers.forEach((header, column) => {
    const button = $("button", header);
    if (!button) return;
    button.addEventListener("click", () => {
      const down = header.getAttribute("aria-sort") === "ascending";
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const kind = button.dataset.kind;
      const keyed = rows.map((row, i) => [valueOf(row.cells[column], kind), i, row]);
      const compare = kind === "number" ? (a, b) => (a < b ? -1 : a > b ? 1 : 0) : collator.compare;
      keyed.sort((a, b) => (down ? -1 : 1) * compare(a[0], b[0]) || a[1] - b[1]);
      body.append(...keyed.map((entry) => entry[2]));
    });
  });
  const filter = $("#filter");
  filter.closest("label").hidden = false;
  const words = rows.map((row) => `${row.textContent} ${row.dataset.group || ""}`.toLowerCase());
  const apply = () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words[i].includes(wanted);
      shown += !row.hidden;
    });
    $("#shown").textContent = wanted ? `${shown} of ${rows.length}` : "";
  };
  filter.addEventListener("input", apply);
  const showOnly = (text) => {
    filter.value = text;
    apply();
    $("#sequences").scrollIntoView();
    filter.focus({ preventScroll: true });
  };

  // What the table shows, as a file: the columns of `sojourn detect`.
  const exports = $(".exports");
  exports.hidden = false;
  const labelled = headers.length > 5;
  const records = () => rows.map((row) => {
    const [id, pvalue, score, length, ...rest] = [...row.cells];
    const record = {
      id: id.textContent, score: Number(score.dataset.v), p_value: Number(pvalue.dataset.v),
      verdict: row.classList.contains("alarm") ? "abnormal" : "normal",
      reason: rest.at(-1).textContent, steps: Number(length.textContent),
    };
    if (labelled) record.label = rest[0].textContent;
    return record;
  });
  const cell = (value) => {
    const text = String(value);
    // A spreadsheet would take such a text for a formula.
    const inert = typeof value === "string" && /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))
      ? `'${text}` : text;
    return /[",\n\r]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
  };
  const asFile = {
    json: () => JSON.stringify(records(), null, 1),
    csv: () => {
      const all = records();
      return [Object.keys(all[0]), ...all.map(Object.values)]
        .map((line) => line.map(cell).join(",")).join("\n") + "\n";
    },
  };
  $$("button", exports).forEach((button) => button.addEventListener("click", () => {
    const kind = button.dataset.export;
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([asFile[kind]()], { type: `text/${kind}` }));
    link.download = `sequences.${kind}`;
    link.click();
    URL.revokeObjectURL(link.href);
  }));

  // Steps count from 1; where a step has a length, axes show the time since the start.
  const percent = (x, n) => `${(100 * x) / n}%`;
  const [stepLength, unit] = data.step || [1, ""];
  const after = (t) => `${Number((t * stepLength).toPrecision(6))} ${unit}`;
  const ticks = (holder, n, most) => {
    const stride = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000]
      .find((s) => n / s <= most) || n;
    for (let t = 0; t < n; t += stride) {
      const step = Math.max(t, 1); // a step of one stands from 0 to 1
      const tick = make("span", "", unit ? String(Number((t * stepLength).toPrecision(6))) : String(step));
      tick.style.left = percent(t && !unit ? step - 0.5 : t, n);
      if (t / n > 0.95) tick.className = "last";
      if (unit || t !== 1) holder.append(tick);
    }
  };
  const axisName = unit || "step";
  const swatches = (holder, states, names, colorOf) => states.forEach((state) => {
    const entry = make("span", "", names[state]);
    entry.style.setProperty("--own", colorOf(state));
    holder.append(entry);
  });

  // All sequences: one line of pixels each, the most abnormal first.
  const heat = data.heat;
  heat.rows = heat.rows.map((text) => [...text.matchAll(/(\D)(\d*)/gu)]
    .map(([, color, length]) => [Number(length || 1), color.codePointAt(0) - 256]));
  const canvas = $(".heat canvas");
  const placeOf = (line) => (heat.places ? heat.places[line] : line);
  const colorName = (k) => `--c${k % 10}`;
  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const context = canvas.getContext("2d");
    canvas.width = heat.columns;
    canvas.height = heat.rows.length;
    heat.rows.forEach((runs, y) => {
      let x = 0;
      for (const [length, value] of runs) {
        if (value >= 0) {
          context.fillStyle = style.getPropertyValue(colorName(value));
          context.fillRect(x, y, length, 1);
        }
        x += length;
      }
    });
  };
  const countOf = (n) => `${n.toLocaleString("en")} sequence${n === 1 ? "" : "s"}`;
  {
    const holder = $(".heat");
    holder.hidden = false;
    const lines = heat.rows.length;
    canvas.style.height = `${Math.round(Math.min(14 * lines, Math.max(420, Math.min(lines, 620))))}px`;
    canvas.setAttribute("aria-label", `${countOf(lines)} as lines of ${heat.by}s, the most abnormal first`);
    for (const [n, name, kind] of [[heat.alarms, "abnormal", "alarm"], [lines - heat.alarms, "normal", ""]]) {
      if (!n) continue;
      const part = make("div", kind);
      part.style.flexGrow = n;
      part.append(make("span", "", (n / lines) * canvas.clientHeight > 70 ? name : ""));
      $(".side", holder).append(part);
    }
    ticks($(".axis", holder), heat.span, holder.clientWidth < 500 ? 4 : 10);
    const used = [...new Set(heat.rows.flat().map((run) => run[1]))].filter((k) => k >= 0);
    swatches($("#heat-key"), used.sort((a, b) => a - b), heat.names, (k) => `var(${colorName(k)})`);
    const rest = (heat.cut ? ` ${countOf(heat.cut)} cut off at ${unit ? after(heat.span) : `step ${heat.span}`}.` : "")
      + (heat.places ? " Of those after the first 500, some are left out." : "");
    const hint = `One line per sequence, the most abnormal at the top; colours are ${heat.by}s, the axis is in ${unit || "steps"}.${rest}`;
    const read = $("#heat-read");
    read.textContent = `${hint} Click on a line to see more of it.`;
    const lineAt = (event) => {
      const { top, height } = canvas.getBoundingClientRect();
      return Math.min(Math.max(Math.floor(((event.clientY - top) / height) * lines), 0), lines - 1);
    };
    canvas.addEventListener("pointermove", (event) => {
      const { left, width } = canvas.getBoundingClientRect();
      const line = lineAt(event);
      let x = ((event.clientX - left) / width) * heat.columns;
      const run = heat.rows[line].find(([length]) => (x -= length) < 0);
      const row = rows[placeOf(line)];
      read.replaceChildren(make("strong", "", row.cells[0].textContent),
        `: p ${row.cells[1].textContent}`, run && run[1] >= 0 ? `, ${heat.names[run[1]]}` : "");
    });
    canvas.addEventListener("pointerleave", () => { read.textContent = hint; });
    canvas.addEventListener("click", (event) => {
      const place = placeOf(lineAt(event));
      if (document.getElementById(`case-${place}`)) location.hash = `case-${place}`;
      else showOnly(rows[place].cells[0].textContent);
    });
    paint();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  }
  $$("button.group").forEach((button) => button.addEventListener("click", () => showOnly(button.dataset.group)));

  // Timelines: drawn when they are opened. Drawings stretch, text does not.
  const svg = (n, height, paths) => {
    const space = $("#theme svg").namespaceURI;
    const root = document.createElementNS(space, "svg");
    root.setAttribute("viewBox", `0 0 ${n} ${height}`);
    root.setAttribute("preserveAspectRatio", "none");
    root.setAttribute("aria-hidden", "true");
    for (const [d, name, fill] of paths) {
      const path = document.createElementNS(space, "path");
      path.setAttribute("d", d);
      if (name) path.setAttribute("class", name);
      if (fill) path.style.fill = fill;
      root.append(path);
    }
    return root;
  };
  const row = (kind, label, height, drawing) => {
    const element = make("div", `row ${kind}`);
    const name = make("div", "label", label);
    name.title = label;
    const plot = make("div", "plot");
    plot.style.setProperty("--h", `${height}px`);
    if (drawing) plot.append(drawing);
    element.append(name, plot);
    return element;
  };

  const flagsOf = (item, n, width) => {
    const flags = row("flags", "", 24);
    const middles = item.reasons
      .map((where, i) => where && { x: (where[0] + where[1]) / 2 / n, name: String(i + 1) })
      .filter(Boolean).sort((a, b) => a.x - b.x);
    const apart = 22 / Math.max(width * 0.8, 200); // the width of a flag
    middles.forEach((flag, i) => {
      if (i) flag.x = Math.max(flag.x, middles[i - 1].x + apart);
    });
    for (let i = middles.length - 1; i >= 0; i -= 1) {
      middles[i].x = Math.min(middles[i].x, i + 1 < middles.length ? middles[i + 1].x - apart : 1);
      const flag = make("span", "flag", middles[i].name);
      flag.style.left = percent(middles[i].x, 1);
      $(".plot", flags).append(flag);
    }
    return flags;
  };

  const symbolLanes = (item, n, least, hot) => {
    const bar = (from, to) => {
      const width = Math.max(to - from - (n < 150 ? 0.12 : 0), least);
      return `M${from.toFixed(2)} 0h${width.toFixed(2)}v10h${(-width).toFixed(2)}z`;
    };
    const laneOf = new Map();
    item.lanes.forEach((codes, lane) => codes.forEach((code) => laneOf.set(code, lane)));
    const calm = item.lanes.map(() => []);
    const marked = item.lanes.map(() => []);
    for (let t = 0; t < n;) {
      let end = t + 1;
      const isHot = hot.has(t);
      while (end < n && item.codes[end] === item.codes[t] && hot.has(end) === isHot) end += 1;
      if (item.codes[t] >= 0) (isHot ? marked : calm)[laneOf.get(item.codes[t])].push(bar(t, end));
      t = end;
    }
    return item.lanes.map((codes, lane) => {
      const label = codes.length === 1 ? data.names[codes[0]] : `${codes.length} other symbols`;
      const drawing = svg(n, 10, [[calm[lane].join(""), ""], [marked[lane].join(""), "hot"]]);
      const element = row("lane", label, 15, drawing);
      drawing.style.height = "9px";
      drawing.style.top = "3px";
      return element;
    });
  };

  // Each channel as a line on the bands of its states: mean plus and minus two deviations.
  const channelLanes = (item, n) => data.channels.map((channel, j) => {
    const bands = [];
    let t = 0;
    for (const [length, state] of item.states) {
      if (channel.bands.length) {
        const [low, high] = channel.bands[state];
        bands.push([`M${t} ${1000 - high}h${length}v${high - low}h${-length}z`, "band", `var(--c${state % 10})`]);
      }
      t += length;
    }
    let line = "";
    let pen = "M";
    item.values[j].forEach((value, i) => {
      if (value === null) { pen = "M"; return; }
      line += `${pen}${i + 0.5} ${1000 - value}`;
      pen = "L";
    });
    return row("channel", channel.name, 70, svg(n, 1000, [...bands, [line, "line"]]));
  });

  const stateBand = (item, n, least, stateAt) => {
    const byState = new Map();
    const band = row("phases", "state", 20);
    const spans = [];
    let t = 0;
    for (const [length, state] of item.states) {
      if (!byState.has(state)) byState.set(state, []);
      byState.get(state).push(`M${t} 0h${Math.max(length - (n < 400 ? 0.15 : 0), least)}V10H${t}z`);
      if (length / n > 0.024) {
        const name = data.states[state];
        const wide = name !== `state ${state}` && length / n > 0.012 * name.length;
        const span = make("span", "", wide ? name : String(state));
        span.style.left = percent(t, n);
        span.style.width = percent(length, n);
        spans.push(span);
      }
      for (let i = 0; i < length; i += 1) stateAt.push(state);
      t += length;
    }
    const paths = [...byState].map(([state, d]) => [d.join(""), "", `var(--c${state % 10})`]);
    $(".plot", band).append(svg(n, 10, paths), ...spans);
    return band;
  };

  const surpriseOf = (item, n, least, hot) => {
    const most = Math.max(...item.surprise, 1);
    const bins = Math.min(n, 1200);
    const area = (wanted) => {
      let d = "";
      for (let i = 0; i < bins; i += 1) {
        const from = Math.floor((i * n) / bins);
        const to = Math.floor(((i + 1) * n) / bins);
        let top = 0;
        for (let t = from; t < to; t += 1) if (hot.has(t) === wanted) top = Math.max(top, item.surprise[t]);
        if (top) {
          const width = wanted ? Math.max(to - from, least) : to - from;
          d += `M${from} ${most}v${-top}h${width.toFixed(2)}v${top}z`;
        }
      }
      return d;
    };
    const peak = `surprise\nto ${(most / 100).toFixed(1)} nats`;
    return row("surprise", peak, 64, svg(n, most, [[area(false), ""], [area(true), "hot"]]));
  };

  const valuesAt = (item, t) => data.channels.map((channel, j) => {
    const value = item.values[j][t];
    if (value === null) return `${channel.name} missing`;
    const real = channel.low + (value / 1000) * (channel.high - channel.low);
    return `${channel.name} ${channel.words[Math.round(real)] ?? Number(real.toPrecision(3))}`;
  }).join(", ");

  // Draws one sequence into a holder, and returns a function that points at a step of it.
  const drawSequence = (holder, item, withKey) => {
    const box = make("div", "chart");
    holder.append(box);
    const n = item.codes.length;
    if (!n) { box.append(make("p", "aside", "It has no steps.")); return () => {}; }
    const least = n / 420; // so that one step of thousands can be seen
    const hot = new Set(item.marks);
    const placed = item.reasons.some(Boolean);
    const stateAt = [];
    if (placed) box.append(flagsOf(item, n, holder.clientWidth));
    box.append(...(data.channels.length ? channelLanes(item, n) : symbolLanes(item, n, least, hot)));
    if (item.states.length) box.append(stateBand(item, n, least, stateAt));
    box.append(surpriseOf(item, n, least, hot));
    const axis = row("axis", axisName, 20);
    box.append(axis);
    ticks($(".plot", axis), n, box.clientWidth < 500 ? 4 : 9);

    const over = make("div", "over");
    item.reasons.forEach((where) => {
      if (!where) return;
      const span = make("i");
      span.style.left = percent(where[0], n);
      span.style.width = percent(where[1] - where[0], n);
      over.append(span);
    });
    if (!placed) over.classList.add("unflagged");
    const cursor = make("b");
    cursor.hidden = true;
    over.append(cursor);
    box.append(over);
    const read = make("p", "read", "Point at a step, or use the arrow keys.");
    holder.append(read);
    if (withKey && stateAt.length) {
      const key = make("p", "key");
      swatches(key, [...new Set(stateAt)].sort((a, b) => a - b), data.about, (k) => `var(--c${k % 10})`);
      holder.append(key);
    }

    let step = -1;
    const point = (t) => {
      step = Math.min(Math.max(t, 0), n - 1);
      cursor.hidden = false;
      cursor.style.left = percent(step + 0.5, n);
      const code = item.codes[step];
      const what = data.channels.length ? valuesAt(item, step) : code < 0 ? "missing" : data.names[code];
      const rest = (stateAt.length ? `${data.states[stateAt[step]]}, ` : "")
        + `surprise ${(item.surprise[step] / 100).toFixed(2)} nats`;
      const when = `Step ${step + 1}${unit ? `, after ${after(step)}` : ""}: `;
      read.replaceChildren(when, make("strong", "", what), `, ${rest}`);
      over.setAttribute("aria-valuenow", String(step + 1));
      over.setAttribute("aria-valuetext", read.textContent);
    };
    over.tabIndex = 0;
    for (const [name, value] of Object.entries({
      role: "slider", "aria-label": "Step", "aria-valuemin": "1",
      "aria-valuemax": String(n), "aria-valuenow": "1",
    })) over.setAttribute(name, value);
    const follow = (event) => {
      const { left, width } = over.getBoundingClientRect();
      point(Math.floor(((event.clientX - left) / width) * n));
    };
    over.addEventListener("pointermove", follow);
    over.addEventListener("pointerdown", follow);
    over.addEventListener("keydown", (event) => {
      const far = Math.max(10, Math.round(n / 20));
      const by = {
        ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: far, PageDown: -far,
        Home: -n, End: n,
      }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      point(step + by);
    });
    return (t) => { point(t); over.focus(); };
  };

  const draw = (place) => {
    const item = data.items[place];
    const timeline = $(`#case-${place} .timeline`);
    if (timeline.childElementCount) return;
    const point = drawSequence(timeline, item, true);
    $$(`#case-${place} .where`).forEach((button) => {
      button.addEventListener("click", () => point(Number(button.dataset.start)));
    });
    if (item.typical === undefined) return;
    const usual = data.typical[item.typical];
    const beside = make("div", "timeline typical");
    timeline.after(make("h4", "", `A typical normal sequence to compare with: ${usual.id}`), beside);
    drawSequence(beside, usual, false);
  };

  const cases = $$(".case");
  cases.forEach((element) => element.addEventListener("toggle", () => {
    if (element.open) draw(Number(element.dataset.case));
  }));
  cases.filter((element) => element.open).forEach((element) => draw(Number(element.dataset.case)));
  const openNamed = () => {
    const wanted = document.getElementById(location.hash.slice(1));
    if (!wanted || !wanted.matches(".case")) return;
    wanted.open = true;
    draw(Number(wanted.dataset.case));
    wanted.scrollIntoView();
    $("summary", wanted).focus({ preventScroll: true });
  };
  addEventListener("hashchange", openNamed);
  $$("#table a, .groups a").forEach((link) => link.addEventListener("click", () => {
    if (location.hash === link.getAttribute("href")) openNamed(); // the same link once more
  }));
  openNamed();

  const all = $("#all");
  all.hidden = cases.length < 2;
  const allLabel = all.textContent;
  all.addEventListener("click", () => {
    const open = all.getAttribute("aria-pressed") !== "true";
    cases.forEach((element) => { element.open = open; });
    all.setAttribute("aria-pressed", String(open));
    all.textContent = open ? "Close all" : allLabel;
  });

  // On paper all timelines are open.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = $$("details").filter((element) => !element.open);
    opened.forEach((element) => { element.open = true; });
    cases.forEach((element) => draw(Number(element.dataset.case)));
  });
  addEventListener("afterprint", () => {
    opened.forEach((element) => { element.open = false; });
    opened = [];
  });
})();
