"use strict";
// Draws the curves of a game when it scrolls into view; sorts and searches tables. Data: the JSON
// in #data. Text is inserted with textContent only, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const all = (selector) => [...document.querySelectorAll(selector)];
  const colour = (series) => (dark.matches ? series.dark : series.colour);
  const short = (value) => Number(value.toPrecision(3)).toLocaleString("en", { notation: Math.abs(value) >= 1e4 ? "compact" : "standard", maximumSignificantDigits: 3 }).replace("K", "k").replace("-", "−");
  const dashes = { solid: "", dash: "6 4", dot: "2 3", dashdot: "6 3 2 3" };

  // [min, max, two characters per value] -> numbers, null for missing values
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const unpacked = ([low, high, text]) => Array.from({ length: text.length / 2 }, (_, at) => {
    const code = alphabet.indexOf(text[2 * at]) * 64 + alphabet.indexOf(text[2 * at + 1]);
    return code < 0 ? null : low + ((high - low) * code) / 4095;
  });

  // ------------------------------------------------------------------------------------- drawing

  const metrics = data.metrics; // name -> label
  const state = { metric: "eval_return", bands: true, every: false, hidden: new Set() };

  function linesOf(game) {
    const scaled = state.metric === "scaled", name = scaled ? "eval_return" : state.metric;
    const scale = scaled ? data.scale[game] : [0, 1];
    if (!scale) return [];
    const put = (values, shift = scale[0]) => values.map((y) => (y === null ? null : (y - shift) / (scale[1] - scale[0])));
    const lines = [];
    data.series.forEach((series, number) => {
      const found = series.games[game][name];
      if (!found || state.hidden.has(number)) return;
      const runs = state.every && name === "eval_return" ? series.games[game].runs || [] : [];
      lines.push({ series, x: series.x || data.x, y: put(unpacked(found[0])),
        doubt: found[1] && put(unpacked(found[1]), 0), runs: runs.map((run) => put(unpacked(run))) });
    });
    return lines;
  }

  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at++) found.push(at * step);
    return found;
  }

  function element(parent, name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  }

  function draw(place) {
    const lines = linesOf(Number(place.dataset.game)), width = Math.max(place.clientWidth, 200);
    const height = Math.min(380, Math.max(210, width * 0.5)), left = 46, right = 10, top = 8, bottom = 36;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [key, value] of Object.entries({ width, height, role: "img", "aria-label": metrics[state.metric] })) svg.setAttribute(key, value);
    place.replaceChildren(svg);
    place.dataset.drawn = "yes";
    const end = data.x[data.x.length - 1];
    const inside = lines.flatMap((line) => [line.y, ...line.runs,
      ...(state.bands && line.doubt ? [-1, 1].map((sign) => line.y.map((y, i) => (y === null || line.doubt[i] === null ? null : y + sign * line.doubt[i]))) : [])]
      .flatMap((row) => row.filter((y, i) => y !== null && line.x[i] <= end)));
    if (!inside.length) { element(svg, "text", { x: width / 2, y: height / 2, class: "tick", "text-anchor": "middle" }, "no data"); return; }
    let low = inside.reduce((a, b) => Math.min(a, b)), high = inside.reduce((a, b) => Math.max(a, b));
    const room = 0.06 * (high - low) || 0.5;
    low -= room; high += room;
    const px = (x) => left + ((width - left - right) * x) / (end * 1.01), py = (y) => top + (height - top - bottom) * (1 - (y - low) / (high - low));
    for (const y of ticks(low, high, 5)) {
      element(svg, "line", { x1: left, x2: width - right, y1: py(y), y2: py(y), class: "rule" });
      element(svg, "text", { x: left - 6, y: py(y) + 4, class: "tick", "text-anchor": "end" }, short(y));
    }
    for (const x of ticks(0, end, width > 500 ? 8 : 4)) element(svg, "text", { x: px(x), y: height - 20, class: "tick", "text-anchor": "middle" }, short(x));
    element(svg, "text", { x: (left + width - right) / 2, y: height - 5, class: "tick", "text-anchor": "middle" }, data.axis);
    element(svg, "line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis" });
    const path = (x, y) => {
      let text = "", pen = false;
      y.forEach((value, i) => {
        if (value === null || x[i] > end) { pen = false; return; }
        text += `${pen ? "L" : "M"}${px(x[i]).toFixed(1)} ${py(value).toFixed(1)}`;
        pen = true;
      });
      return text;
    };
    for (const { series, x, y, doubt, runs } of lines) {
      const ink = colour(series);
      if (state.bands && doubt) {
        const at = y.map((_, i) => i).filter((i) => y[i] !== null && doubt[i] !== null && x[i] <= end);
        const edge = (order, sign) => order.map((i) => `${px(x[i]).toFixed(1)} ${py(y[i] + sign * doubt[i]).toFixed(1)}`);
        if (at.length) element(svg, "path", { d: `M${[...edge(at, 1), ...edge(at.slice().reverse(), -1)].join("L")}Z`, fill: ink, "fill-opacity": 0.18, class: "band" });
      }
      for (const run of runs) element(svg, "path", { d: path(x, run), fill: "none", stroke: ink, "stroke-opacity": 0.4, class: "run" });
      element(svg, "path", { d: path(x, y), fill: "none", stroke: ink, "stroke-width": 1.8, "stroke-dasharray": dashes[series.dash], class: "mean", "data-series": series.name });
      const points = y.map((_, i) => i).filter((i) => y[i] !== null && x[i] <= end);
      if (points.length === 1) element(svg, "circle", { cx: px(x[points[0]]), cy: py(y[points[0]]), r: 4, fill: ink, class: "point" });
    }
    hover(place, svg, lines, px, { left, right, top, bottom, width, height, end });
  }

  // A vertical line at the nearest point, with the values of all series there.
  function hover(place, svg, lines, px, box) {
    const rule = element(svg, "line", { y1: box.top, y2: box.height - box.bottom, class: "axis", visibility: "hidden" });
    const note = document.createElement("div");
    note.className = "hover";
    note.hidden = true;
    place.append(note);
    svg.addEventListener("pointerleave", () => { note.hidden = true; rule.setAttribute("visibility", "hidden"); });
    svg.addEventListener("pointermove", (event) => {
      const at = event.clientX - svg.getBoundingClientRect().left;
      const nearest = (x) => x.reduce((best, value, i) => (Math.abs(px(value) - at) < Math.abs(px(x[best]) - at) ? i : best), 0);
      const here = nearest(data.x);
      const rows = lines.flatMap(({ series, x, y, doubt }) => {
        const i = x === data.x ? here : nearest(x);
        if (y[i] === null) return [];
        const row = document.createElement("div");
        row.textContent = `${series.name}: ${short(y[i])}${doubt && doubt[i] !== null ? ` ± ${short(doubt[i])}` : ""}`;
        row.style.setProperty("--colour", colour(series));
        return [row];
      });
      const head = document.createElement("b");
      head.textContent = `${short(data.x[here])} ${data.axis}`;
      note.replaceChildren(head, ...rows);
      note.hidden = false;
      note.style.left = `${Math.min(px(data.x[here]) + 12, box.width - note.offsetWidth - 4)}px`;
      for (const key of ["x1", "x2"]) rule.setAttribute(key, px(data.x[here]));
      rule.setAttribute("visibility", "visible");
    });
  }

  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
  }), { rootMargin: "300px" });
  const places = all("[data-game]");
  const redraw = () => places.forEach((place) => {
    delete place.dataset.drawn;
    observer.unobserve(place);
    observer.observe(place); // redrawn once visible
  });
  redraw();
  // the toolbar stays on top: links to a game stop below it
  const measure = () => document.documentElement.style.setProperty("--bar", `${document.querySelector(".toolbar").offsetHeight}px`);
  let wide = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; measure(); redraw(); } });
  addEventListener("beforeprint", () => places.forEach(draw));
  dark.addEventListener("change", () => { chips(); redraw(); });

  // ------------------------------------------------------------------------------------ controls

  function chips() {
    document.getElementById("chips").replaceChildren(...data.series.map((series, number) => {
      const chip = document.createElement("button");
      chip.type = "button";
      chip.className = "chip";
      chip.textContent = series.name;
      chip.style.setProperty("--colour", colour(series));
      chip.setAttribute("aria-pressed", String(!state.hidden.has(number)));
      chip.addEventListener("click", () => {
        if (!state.hidden.delete(number)) state.hidden.add(number);
        chip.setAttribute("aria-pressed", String(!state.hidden.has(number)));
        redraw();
      });
      return chip;
    }));
  }
  chips();
  measure();
  const select = document.getElementById("metric");
  for (const [value, text] of Object.entries(metrics)) select.add(new Option(text, value));
  select.addEventListener("change", () => { state.metric = select.value; redraw(); });
  for (const name of ["bands", "every"])
    document.getElementById(name)?.addEventListener("change", (event) => { state[name] = event.target.checked; redraw(); });

  // -------------------------------------------------------------------------------------- tables

  const key = (row, column) => {
    const cell = row.cells[column], text = cell.dataset.sort === undefined ? cell.textContent : cell.dataset.sort;
    return text === "" ? null : isNaN(text) ? text.toLowerCase() : Number(text);
  };
  all("table").forEach((table) => table.querySelectorAll("th").forEach((head, column) => {
    head.querySelector("button")?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      body.append(...[...body.rows].map((row) => [key(row, column), row]).sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null); // missing values last
        return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
      }).map(([, row]) => row));
    });
  }));
  all("input[data-table]").forEach((input) => input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.getElementById(input.dataset.table).tBodies[0].rows)
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  }));
  document.getElementById("game-search")?.addEventListener("input", (event) => {
    const text = event.target.value.trim().toLowerCase();
    const fits = (name) => name.toLowerCase().includes(text);
    const rows = [...document.getElementById("games-table").tBodies[0].rows];
    rows.forEach((row) => { row.hidden = !fits(row.cells[0].textContent); });
    data.games.forEach((name, number) => { document.getElementById(`game-${number}`).hidden = !fits(name); });
    const left = rows.filter((row) => !row.hidden).length;
    document.getElementById("game-count").textContent = text ? `${left} of ${rows.length} games` : "";
  });
  document.documentElement.dataset.ready = "yes";
})();
