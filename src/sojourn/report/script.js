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
  const words = rows.map((row) => row.textContent.toLowerCase());
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words[i].includes(wanted);
      shown += !row.hidden;
    });
    $("#shown").textContent = wanted ? `${shown} of ${rows.length}` : "";
  });

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
  const percent = (x, n) => `${(100 * x) / n}%`;

  const draw = (place) => {
    const item = data.items[place];
    const timeline = $(`#case-${place} .timeline`);
    if (timeline.childElementCount) return;
    const box = make("div", "chart");
    timeline.append(box);
    const n = item.codes.length;
    const least = n / 420; // so that one step of thousands can be seen
    const bar = (from, to) => {
      const width = Math.max(to - from - (n < 150 ? 0.12 : 0), least);
      return `M${from.toFixed(2)} 0h${width.toFixed(2)}v10h${(-width).toFixed(2)}z`;
    };

    const flags = row("flags", "", 24);
    const middles = item.reasons
      .map((where, i) => where && { x: (where[0] + where[1]) / 2 / n, name: String(i + 1) })
      .filter(Boolean).sort((a, b) => a.x - b.x);
    const apart = 22 / Math.max(timeline.clientWidth * 0.8, 200); // the width of a flag
    middles.forEach((flag, i) => {
      if (i) flag.x = Math.max(flag.x, middles[i - 1].x + apart);
    });
    for (let i = middles.length - 1; i >= 0; i -= 1) {
      middles[i].x = Math.min(middles[i].x, i + 1 < middles.length ? middles[i + 1].x - apart : 1);
      const flag = make("span", "flag", middles[i].name);
      flag.style.left = percent(middles[i].x, 1);
      $(".plot", flags).append(flag);
    }
    const placed = item.reasons.some(Boolean);
    if (placed) box.append(flags);

    const hot = new Set(item.marks);
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
    item.lanes.forEach((codes, lane) => {
      const label = codes.length === 1 ? data.names[codes[0]] : `${codes.length} other symbols`;
      const drawing = svg(n, 10, [[calm[lane].join(""), ""], [marked[lane].join(""), "hot"]]);
      const element = row("lane", label, 15, drawing);
      drawing.style.height = "9px";
      drawing.style.top = "3px";
      box.append(element);
    });

    const stateAt = [];
    if (item.states.length) {
      const byState = new Map();
      const band = row("phases", "state", 20);
      const spans = [];
      let t = 0;
      for (const [length, state] of item.states) {
        if (!byState.has(state)) byState.set(state, []);
        byState.get(state).push(`M${t} 0h${Math.max(length - (n < 400 ? 0.15 : 0), least)}V10H${t}z`);
        if (length / n > 0.024) {
          const span = make("span", "", String(state));
          span.style.left = percent(t, n);
          span.style.width = percent(length, n);
          spans.push(span);
        }
        for (let i = 0; i < length; i += 1) stateAt.push(state);
        t += length;
      }
      const paths = [...byState].map(([state, d]) => [d.join(""), "", `var(--c${state % 10})`]);
      $(".plot", band).append(svg(n, 10, paths), ...spans);
      box.append(band);
    }

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
    box.append(row("surprise", peak, 64, svg(n, most, [[area(false), ""], [area(true), "hot"]])));

    const axis = row("axis", "step", 20);
    const stride = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000]
      .find((s) => n / s <= (box.clientWidth < 500 ? 4 : 9)) || n;
    for (let t = 0; t < n; t += stride) {
      const tick = make("span", "", String(t + 1));
      tick.style.left = percent(t + (t ? 0.5 : 0), n);
      if (t / n > 0.95) tick.className = "last";
      $(".plot", axis).append(tick);
    }
    box.append(axis);

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
    timeline.append(read);
    if (stateAt.length) {
      const key = make("p", "key");
      [...new Set(stateAt)].sort((a, b) => a - b).forEach((state) => {
        const entry = make("span", "", `state ${state}`);
        entry.style.setProperty("--own", `var(--c${state % 10})`);
        key.append(entry);
      });
      timeline.append(key);
    }

    let step = -1;
    const point = (t) => {
      step = Math.min(Math.max(t, 0), n - 1);
      cursor.hidden = false;
      cursor.style.left = percent(step + 0.5, n);
      const code = item.codes[step];
      const what = code < 0 ? "missing" : data.names[code];
      const rest = (stateAt.length ? `state ${stateAt[step]}, ` : "")
        + `surprise ${(item.surprise[step] / 100).toFixed(2)} nats`;
      read.replaceChildren(`Step ${step + 1}: `, make("strong", "", what), `, ${rest}`);
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
    $$(`#case-${place} .where`).forEach((button) => {
      button.addEventListener("click", () => { point(Number(button.dataset.start)); over.focus(); });
    });
  };

  const cases = $$(".case");
  cases.forEach((element) => element.addEventListener("toggle", () => {
    if (element.open) draw(Number(element.dataset.case));
  }));
  const openNamed = () => {
    const wanted = document.getElementById(location.hash.slice(1));
    if (!wanted || !wanted.matches(".case")) return;
    wanted.open = true;
    draw(Number(wanted.dataset.case));
    wanted.scrollIntoView();
    $("summary", wanted).focus({ preventScroll: true });
  };
  addEventListener("hashchange", openNamed);
  $$("#table a").forEach((link) => link.addEventListener("click", () => {
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
    opened = cases.filter((element) => !element.open);
    cases.forEach((element) => { element.open = true; draw(Number(element.dataset.case)); });
  });
  addEventListener("afterprint", () => {
    opened.forEach((element) => { element.open = false; });
    opened = [];
  });
})();
