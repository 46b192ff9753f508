"use strict";
// Draws each figure when it is scrolled to; sorts and searches tables. Data: the JSON in #data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const phone = matchMedia("(max-width: 640px)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (item) => (dark.matches ? item.dark : item.colour);
  const all = (selector) => [...document.querySelectorAll(selector)];

  // ------------------------------------------------------------------------------- plotly's words

  const axis = (more) => ({
    gridcolor: css("--rule"), linecolor: css("--muted"), zeroline: false, ticks: "outside",
    tickcolor: css("--rule"), automargin: true, fixedrange: phone.matches, ...more,
  });
  const layout = (height, more) => ({
    height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--ink"), size: 12, family: "system-ui, sans-serif" },
    margin: { l: 56, r: 14, t: 12, b: 44 }, hovermode: "closest", showlegend: false,
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--rule"), font: { color: css("--ink") } },
    ...more,
  });
  const config = { displaylogo: false, responsive: true,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const faint = (hex, alpha) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${alpha})`;
  };

  // A curve and, under it, its band. Bands leave out what has no interval.
  function curve(line, more = {}) {
    const ink = colour(line), traces = [];
    const has = line.low && line.low.some((value) => value !== null);
    const of = { xaxis: more.xaxis, yaxis: more.yaxis, legendgroup: line.name };
    if (has && !more.markers && !more.bare) {
      const at = line.x.map((_, i) => i).filter((i) => line.low[i] !== null && line.high[i] !== null);
      traces.push({ ...of, x: [...at, ...at.slice().reverse()].map((i) => line.x[i]),
        y: [...at.map((i) => line.high[i]), ...at.slice().reverse().map((i) => line.low[i])],
        fill: "toself", fillcolor: faint(ink, 0.17), line: { width: 0 }, mode: "lines",
        hoverinfo: "skip", showlegend: false });
    }
    const doubt = (i) => has && line.low[i] !== null
      ? ` [${short(line.low[i])}, ${short(line.high[i])}]` : "";
    traces.push({ ...of, x: line.x, y: line.y, name: line.name,
      mode: more.markers && line.dash === "solid" ? "lines+markers" : "lines",
      line: { color: ink, width: more.width || 2, dash: line.dash }, marker: { size: 8 },
      error_y: more.markers && has ? { type: "data", symmetric: false, color: ink,
        array: line.y.map((y, i) => line.high[i] - y),
        arrayminus: line.y.map((y, i) => y - line.low[i]) } : undefined,
      text: line.x.map((_, i) => doubt(i)), showlegend: more.legend !== false,
      hovertemplate: `<b>${line.name}</b><br>%{x:.4s}: %{y:.4~g}%{text}<extra></extra>` });
    return traces;
  }
  const short = (value) => Number(value.toPrecision(3)).toLocaleString("en");

  // ------------------------------------------------------------------------------ kinds of figures

  const kinds = {
    lines(plot) {
      const columns = phone.matches ? 1 : plot.panels.length;
      const rows = Math.ceil(plot.panels.length / columns);
      const many = plot.panels.length > 1, traces = [], shape = { annotations: [] };
      plot.panels.forEach((panel, at) => {
        const n = at ? String(at + 1) : "";
        const column = at % columns, row = Math.floor(at / columns);
        const gap = 0.05, width = (1 - gap * (columns - 1)) / columns;
        const rgap = rows > 1 ? 0.07 : 0, tall = (1 - rgap * (rows - 1)) / rows;
        const left = column * (width + gap), top = 1 - row * (tall + rgap);
        shape["xaxis" + n] = axis({ domain: [left, left + width], anchor: "y" + n,
          title: row === rows - 1 ? { text: plot.x } : undefined,
          type: plot.options.log_x ? "log" : "linear",
          ...(plot.options.log_x ? { tickvals: [...new Set(panel.lines.flatMap((l) => l.x))],
            ticktext: [...new Set(panel.lines.flatMap((l) => l.x))].map(String) } : {}),
          ...(plot.options.x_max ? { range: [0, plot.options.x_max] } : {}) });
        shape["yaxis" + n] = axis({ domain: [top - tall, top], anchor: "x" + n,
          title: column === 0 ? { text: plot.y } : undefined,
          rangemode: plot.options.zero ? "tozero" : "normal",
          ...(plot.options.y_range ? { range: plot.options.y_range } : {}) });
        if (panel.title) shape.annotations.push({ text: `<b>${panel.title}</b>`, showarrow: false,
          xref: "paper", yref: "paper", x: left, y: top, xanchor: "left", yanchor: "bottom" });
        panel.lines.forEach((line) => traces.push(...curve(line, { xaxis: "x" + n, yaxis: "y" + n,
          markers: plot.options.markers, legend: at === 0 })));
      });
      const height = many ? (phone.matches ? 230 * rows + 60 : 320)
        : 400 + (phone.matches ? 18 * Math.max(0, plot.panels[0].lines.length - 3) : 0);
      return [traces, layout(height, { ...shape, showlegend: true,
        legend: { orientation: "h", x: 0, y: 1 + (many ? 40 : 10) / height, yanchor: "bottom" },
        margin: { l: 56, r: 14, t: many ? 60 : 40, b: 46 } })];
    },

    intervals(plot) {
      const traces = [], shape = { annotations: [], shapes: [] };
      const columns = phone.matches && plot.panels.length > 1 ? 1 : plot.panels.length;
      const count = Math.max(...plot.panels.map((panel) => panel.lines.length));
      const rows = Math.ceil(plot.panels.length / columns);
      const height = rows * (count * 28 + 62) + 30;
      plot.panels.forEach((panel, at) => {
        const n = at ? String(at + 1) : "";
        const column = at % columns, row = Math.floor(at / columns);
        const gap = 0.04, width = (1 - gap * (columns - 1)) / columns;
        const rgap = 62 / height, tall = (1 - rgap * (rows - 1)) / rows;
        const left = column * (width + gap), top = 1 - row * (tall + rgap);
        shape["xaxis" + n] = axis({ domain: [left, left + width], anchor: "y" + n, nticks: 6,
          ...(plot.options.range ? { range: plot.options.range } : {}) });
        shape["yaxis" + n] = axis({ domain: [top - tall, top], anchor: "x" + n, range: [count - 0.5, -0.5],
          showticklabels: column === 0, ticks: "", gridcolor: "rgba(0,0,0,0)", type: "category" });
        if (panel.title) shape.annotations.push({ text: `<b>${panel.title}</b>`, showarrow: false,
          xref: "paper", yref: "paper", x: left, y: top, xanchor: "left", yanchor: "bottom" });
        if (plot.options.reference !== undefined) shape.shapes.push({ type: "line", xref: "x" + n,
          yref: "paper", x0: plot.options.reference, x1: plot.options.reference, y0: 0, y1: 1,
          line: { color: css("--muted"), width: 1, dash: "dash" } });
        panel.lines.forEach((line) => {
          const low = line.low && line.low[0], high = line.high && line.high[0];
          const known = low !== null && low !== undefined;
          traces.push({ x: line.x, y: [line.name], xaxis: "x" + n, yaxis: "y" + n, mode: "markers",
            marker: { color: colour(line), size: 10, symbol: known ? "line-ns" : "diamond",
              line: { width: known ? 3 : 0, color: colour(line) } },
            error_x: known ? { type: "data", symmetric: false, array: [high - line.x[0]],
              arrayminus: [line.x[0] - low], color: faint(colour(line), 0.5), thickness: 12, width: 0 }
              : undefined,
            hovertemplate: `<b>${line.name}</b> ${panel.title}<br>%{x:.3f}` +
              (known ? ` [${low.toFixed(3)}, ${high.toFixed(3)}]` : "") + "<extra></extra>" });
        });
      });
      return [traces, layout(height, { ...shape, margin: { l: 20, r: 14, t: 30, b: 40 } })];
    },

    // Horizontal bars, largest on top; the axis is asinh: linear below 10%, logarithmic above.
    gains(plot) {
      const [final, area] = plot.panels[0].lines, bend = (value) => Math.asinh(value / 0.1);
      const worse = { colour: plot.options.negative[0], dark: plot.options.negative[1] };
      const said = (value, digits) => `${(100 * value).toFixed(digits)}%`.replace("-", "−");
      const percent = final.y.map((y) => said(y, 1));
      const bar = { type: "bar", orientation: "h", y: final.x, x: final.y.map(bend), customdata: percent,
        name: "final", marker: { color: final.y.map((y) => colour(y > 0 ? final : worse)) },
        hovertemplate: "<b>%{y}</b><br>final gain %{customdata}<extra></extra>" };
      const dots = { type: "scatter", mode: "markers", y: area.x, x: area.y.map((y) => y === null ? null : bend(y)),
        name: "area under the curve", customdata: area.y.map((y) => y === null ? "" : said(y, 1)),
        marker: { size: 7, color: css("--card"), line: { color: css("--ink"), width: 1.4 } },
        hovertemplate: "<b>%{y}</b><br>gain in area %{customdata}<extra></extra>" };
      const reach = Math.max(...[...final.y, ...area.y].map((y) => Math.abs(y || 0)));
      const ticks = [0];
      for (let size = 0.1; size / 3 < reach || size === 0.1; size *= 10) ticks.push(size, -size);
      return [[bar, dots], layout(90 + 17 * final.x.length, {
        xaxis: axis({ tickvals: ticks.map(bend), ticktext: ticks.map((t) => said(t, 0)),
          side: "top", zeroline: true, zerolinecolor: css("--muted") }),
        yaxis: axis({ type: "category", ticks: "", gridcolor: "rgba(0,0,0,0)", dtick: 1, tickfont: { size: 11 },
          range: [-0.7, final.x.length - 0.3] }),
        bargap: 0.25, margin: { l: 20, r: 14, t: 44, b: 14 } })];
    },

    dots(plot) {
      const lines = plot.panels[0].lines;
      return [lines.map((line) => ({ x: line.y, y: line.x, mode: "markers", name: line.name,
        marker: { color: colour(line), size: 7 },
        hovertemplate: `<b>%{y}</b><br>${line.name}: %{x:.3f}<extra></extra>` })),
      layout(110 + 17 * lines[0].x.length, { showlegend: true,
        legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
        xaxis: axis({ rangemode: "tozero" }),
        yaxis: axis({ type: "category", ticks: "", dtick: 1, tickfont: { size: 11 },
          range: [-0.7, lines[0].x.length - 0.3] }),
        shapes: [{ type: "line", yref: "paper", y0: 0, y1: 1, x0: plot.options.reference,
          x1: plot.options.reference, line: { color: css("--muted"), width: 1, dash: "dash" } }],
        margin: { l: 20, r: 14, t: 40, b: 40 } })];
    },
  };

  // ----------------------------------------------------------------------------- curves game by game

  const metrics = { eval_return: "evaluation return" };
  if (data.scaled) metrics.scaled = data.unit;
  metrics.sync_distance = "size of the target updates";
  metrics.value_distance = "|Q online − Q target|";
  const state = { metric: "eval_return", bands: true, every: false, hidden: new Set() };

  function gameLines(game) {
    const scaled = state.metric === "scaled", name = scaled ? "eval_return" : state.metric;
    const [low, high] = (scaled && data.scale[game]) || [0, 1];
    if (scaled && !data.scale[game]) return [];
    const put = (values, shift = low) => values.map((y) => (y === null ? null : (y - shift) / (high - low)));
    const lines = [];
    for (const series of data.series) {
      const found = series.games[game];
      if (!found || state.hidden.has(series.name)) continue;
      const mean = put(found[name][0]), doubt = put(found[name][1], 0);
      const shifted = (sign) => mean.map((y, i) => (y === null || doubt[i] === null ? null : y + sign * doubt[i]));
      lines.push({ ...series, games: undefined, x: data.axis.x, y: mean, low: shifted(-1), high: shifted(1),
        runs: name === "eval_return" ? found.runs.map((run) => put(run)) : [] });
    }
    if (name === "eval_return") for (const one of data.baselines)
      if (!state.hidden.has(one.name))
        lines.push({ ...one, games: undefined, y: put(one.games[game]), low: null, high: null, runs: [] });
    return lines;
  }

  function drawGame(place) {
    const lines = gameLines(place.dataset.curves), traces = [];
    const end = data.axis.x[data.axis.x.length - 1];
    for (const line of lines) {
      if (state.every) for (const run of line.runs) traces.push({ x: line.x, y: run, mode: "lines",
        line: { color: faint(colour(line), 0.35), width: 1 }, hoverinfo: "skip" });
      traces.push(...curve(line, { bare: !state.bands, width: 1.8 }));
    }
    const inside = traces.flatMap((t) => t.y.filter((y, i) => y !== null && t.x[i] <= end));
    const [least, most] = [Math.min(...inside), Math.max(...inside)], room = 0.05 * (most - least) || 0.5;
    return Plotly.react(place, traces, layout(230, {
      xaxis: axis({ range: [0, end], nticks: 5 }),
      yaxis: axis({ nticks: 6, range: inside.length ? [least - room, most + room] : undefined }),
      margin: { l: 48, r: 10, t: 8, b: 30 },
      annotations: lines.length ? [] : [{ text: "nothing to show", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }],
    }), config);
  }

  // ------------------------------------------------------------------------------ drawing on scroll

  const drawn = new Set();
  function draw(place) {
    drawn.add(place);
    delete place.dataset.stale;
    if (place.dataset.curves) return drawGame(place);
    const plot = data.plots[place.dataset.plot];
    return Plotly.react(place, ...kinds[plot.kind](plot), config);
  }
  const seer = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target);
  }), { rootMargin: "300px" });
  all(".plot").forEach((place) => seer.observe(place));
  const redraw = (selector) => all(selector).filter((place) => drawn.has(place)).forEach((place) => {
    const box = place.getBoundingClientRect();
    if (box.bottom > -300 && box.top < innerHeight + 300) return draw(place);
    drawn.delete(place); // drawn anew when it is scrolled to
    place.dataset.stale = "yes";
    seer.unobserve(place);
    seer.observe(place);
  });
  const again = () => { drawn.forEach(draw); chips(); };
  dark.addEventListener("change", again);
  phone.addEventListener("change", again);
  addEventListener("beforeprint", () => all(".plot").forEach(draw));

  // ---------------------------------------------------------------------------------------- controls

  function chips() {
    const box = document.getElementById("chips");
    box.replaceChildren(...[...data.series, ...data.baselines].map((series) => {
      const chip = document.createElement("button");
      chip.type = "button";
      chip.className = "chip";
      chip.textContent = series.name;
      chip.style.setProperty("--colour", colour(series));
      chip.setAttribute("aria-pressed", String(!state.hidden.has(series.name)));
      chip.addEventListener("click", () => {
        if (!state.hidden.delete(series.name)) state.hidden.add(series.name);
        chip.setAttribute("aria-pressed", String(!state.hidden.has(series.name)));
        redraw("[data-curves]");
      });
      return chip;
    }));
  }
  chips();
  const select = document.getElementById("metric");
  for (const [value, text] of Object.entries(metrics)) select.add(new Option(text, value));
  select.addEventListener("change", () => { state.metric = select.value; redraw("[data-curves]"); });
  for (const name of ["bands", "every"])
    document.getElementById(name).addEventListener("change", (event) => {
      state[name] = event.target.checked;
      redraw("[data-curves]");
    });

  // ------------------------------------------------------------------------------------------ tables

  const key = (row, column) => {
    const cell = row.cells[column], sort = cell.dataset.sort;
    const text = sort === undefined ? cell.textContent : sort;
    return text === "" ? null : isNaN(text) ? text.toLowerCase() : Number(text);
  };
  all("table").forEach((table) => table.querySelectorAll("th").forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      body.append(...[...body.rows].map((row) => [key(row, column), row]).sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null); // what is missing, last
        return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
      }).map(([, row]) => row));
    });
  }));
  const filter = (rows, text) => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row) => { row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word)); });
  };
  all("input[data-table]").forEach((input) => input.addEventListener("input",
    () => filter([...document.getElementById(input.dataset.table).tBodies[0].rows], input.value)));
  document.getElementById("game-search").addEventListener("input", (event) => {
    const text = event.target.value.trim().toLowerCase(), table = document.getElementById("games-table");
    const rows = [...table.tBodies[0].rows];
    rows.forEach((row) => { row.hidden = !row.cells[0].textContent.toLowerCase().includes(text); });
    all(".card").forEach((card) => { card.hidden = !card.dataset.game.toLowerCase().includes(text); });
    const left = rows.filter((row) => !row.hidden).length;
    document.getElementById("game-count").textContent = text ? `${left} of ${rows.length} games` : "";
  });

  // ---------------------------------------------------------------------------------- data as a file

  function rows(id) {
    const table = [["panel", "series", "x", "y", "low", "high"]];
    if (id === "learning_curves") {
      for (const series of data.series) for (const [game, found] of Object.entries(series.games)) {
        const [mean, error] = found.eval_return;
        mean.forEach((y, i) => table.push([game, series.name, data.axis.x[i], y,
          error[i] === null ? null : y - error[i], error[i] === null ? null : y + error[i]]));
      }
      return table;
    }
    for (const panel of data.plots[id].panels) for (const line of panel.lines)
      line.x.forEach((x, i) => table.push([panel.title, line.name, x, line.y[i],
        line.low && line.low[i], line.high && line.high[i]]));
    return table;
  }
  all("[data-csv]").forEach((button) => button.addEventListener("click", () => {
    const quote = (value) => (value === null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
    const text = rows(button.dataset.csv).map((row) => row.map(quote).join(",")).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = button.dataset.csv + ".csv";
    link.click();
    URL.revokeObjectURL(link.href);
  }));
  document.documentElement.dataset.ready = "yes";
})();
