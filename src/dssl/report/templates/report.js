"use strict";
// Draws the charts of the page, whose data stand in the element #charts, in the colours of its style sheet.
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // by the button; else the system's
  let printing = false;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  // Plotly reads a little HTML in texts: what users wrote is to be shown as it is.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  // In the middle, since ids often differ at their ends.
  const cut = (text, length) => {
    const tail = Math.floor((length - 1) / 2);
    return text.length > length ? `${text.slice(0, length - 1 - tail)}…${text.slice(text.length - tail)}` : text;
  };
  const figure = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
  const colours = () => [0, 1, 2, 3, 4, 5, 6, 7].map((at) => css("--c" + at));
  const SYMBOLS = ["circle", "triangle-up", "square"];
  const OTHER = 254,
    NONE = 255;
  const MANY = 3000; // points that are drawn one by one; more are painted as an image
  const VIRIDIS = [
    [68, 1, 84],
    [71, 44, 122],
    [59, 81, 139],
    [44, 113, 142],
    [33, 144, 141],
    [39, 173, 129],
    [92, 200, 99],
    [170, 220, 50],
    [253, 231, 37],
  ];

  function unpack({ type, data }) {
    const bytes = Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0)).buffer;
    const kinds = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i2: Int16Array, f4: Float32Array };
    return new kinds[type](bytes);
  }

  function layout(more) {
    const axis = {
      gridcolor: css("--grid"),
      linecolor: css("--line"),
      zeroline: false,
      fixedrange: true,
      automargin: true,
      tickfont: { size: 10.5 },
    };
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 34, r: 8, t: 8, b: 26 },
      showlegend: false,
      dragmode: false,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--soft") },
      hoverlabel: {
        bgcolor: css("--surface"),
        bordercolor: css("--line"),
        font: { color: css("--ink"), size: 12 },
        align: "left",
      },
    };
    return { ...base, ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis } };
  }

  function lines(chart) {
    const palette = colours();
    const traces = chart.lines.map((line) => ({
      type: "scatter",
      mode: line.x.length > 2 ? "lines" : "lines+markers",
      x: line.x,
      y: line.y,
      name: plain(line.name),
      line: {
        color: palette[line.look % 8],
        width: 1.8,
        dash: ["solid", "dash", "dot"][Math.floor(line.look / 8) % 3],
      },
      hovertemplate: (line.name ? plain(line.name) + ", " : "") + "epoch %{x}: %{y:.4~g}<extra></extra>",
    }));
    const shapes = [];
    if (chart.limit != null)
      shapes.push({
        type: "line",
        xref: "paper",
        x0: 0,
        x1: 1,
        y0: chart.limit,
        y1: chart.limit,
        line: { color: css("--look"), width: 1, dash: "dash" },
      });
    return [
      traces,
      layout({ shapes, xaxis: { rangemode: "tozero" }, yaxis: chart.limit != null ? { rangemode: "tozero" } : {} }),
    ];
  }

  function intervals(chart, box) {
    const narrow = box.clientWidth < 560;
    const rows = chart.rows.slice().reverse();
    const names = rows.map((row) => plain(cut(row.name, narrow ? 24 : 48)));
    const places = rows.map((_, at) => at);
    const palette = colours();
    const colour = rows.map((row) => (row.look == null ? css("--soft") : palette[row.look % 8]));
    const dots = { x: [], y: [] };
    rows.forEach((row, at) =>
      row.splits.forEach((value) => {
        dots.x.push(value);
        dots.y.push(at);
      }),
    );
    const traces = [
      {
        type: "scatter",
        mode: "markers",
        ...dots,
        marker: { size: 6, color: css("--rest"), opacity: 0.55, line: { width: 0 } },
        hoverinfo: "skip",
      },
      {
        type: "scatter",
        mode: "markers",
        x: rows.map((row) => row.mean),
        y: places,
        marker: { size: 11, color: colour },
        hoverinfo: "text",
        text: rows.map(
          (row) =>
            plain(row.name) +
            ": " +
            row.mean.toFixed(1) +
            "%" +
            (row.high > row.low ? ", interval " + row.low.toFixed(1) + " to " + row.high.toFixed(1) : ""),
        ),
      },
    ];
    const shapes = rows.map((row, at) => ({
      type: "line",
      layer: "below",
      x0: row.low,
      x1: row.high,
      y0: at,
      y1: at,
      line: { color: colour[at], width: 3 },
    }));
    const annotations = rows.map((row, at) => ({
      xref: "paper",
      x: 1,
      xanchor: "right",
      y: at,
      text: row.look == null ? row.mean.toFixed(1) + "%" : "<b>" + row.mean.toFixed(1) + "%</b>",
      showarrow: false,
      font: { color: colour[at], size: 12 },
      xshift: 52,
    }));
    box.style.height = 60 + 38 * rows.length + "px";
    return [
      traces,
      layout({
        shapes,
        annotations,
        margin: { l: 20, r: 60, t: 6, b: 34 },
        xaxis: { ticksuffix: "%", nticks: narrow ? 4 : 8 },
        yaxis: {
          tickvals: places,
          ticktext: names,
          range: [-0.6, rows.length - 0.4],
          showgrid: false,
          tickfont: { size: 12, color: css("--ink") },
        },
      }),
    ];
  }

  function matrix(chart, box) {
    const large = box.classList.contains("large");
    const count = chart.names.length;
    const names = chart.names.map((name) => plain(cut(name, large ? 18 : 12)));
    const places = chart.names.map((_, at) => at);
    const text = chart.values.map((row, from) =>
      row.map(
        (value, to) =>
          plain(chart.names[from]) +
          " → " +
          plain(chart.names[to]) +
          ": " +
          (value == null ? "not known" : figure(value) + chart.unit),
      ),
    );
    const side = Math.min(box.clientWidth, large ? 460 : 340);
    box.style.height = Math.round(side * (large ? 0.92 : 0.86)) + "px";
    const shown = count <= (large ? 8 : 6);
    const digits = chart.unit ? 0 : 2;
    const most = chart.most || 1;
    const ink = (part) => (part > 0.55 ? "--surface" : part > 0.2 ? "--ink" : "--soft");
    const annotations = !shown
      ? []
      : chart.values.flatMap((row, y) =>
          row.flatMap((value, x) =>
            value == null
              ? []
              : [
                  {
                    x,
                    y,
                    text: value.toFixed(digits),
                    showarrow: false,
                    font: { size: 11, color: css(ink(value / most)) },
                  },
                ],
          ),
        );
    const axis = {
      tickvals: places,
      ticktext: names,
      showgrid: false,
      range: [-0.5, count - 0.5],
      tickfont: { size: count > 10 ? 9 : 10.5 },
    };
    return [
      [
        {
          type: "heatmap",
          x: places,
          y: places,
          z: chart.values,
          text,
          hoverinfo: "text",
          zmin: 0,
          zmax: most,
          xgap: 1.5,
          ygap: 1.5,
          showscale: false,
          colorscale: [
            [0, css("--zero")],
            [1, css("--accent")],
          ],
        },
      ],
      layout({
        annotations,
        margin: { l: 10, r: 4, t: 4, b: 10 },
        xaxis: { ...axis, tickangle: -40 },
        yaxis: { ...axis, range: [count - 0.5, -0.5] },
      }),
    ];
  }

  const unpacked = new Map();
  const column = (packed) => unpacked.get(packed) || unpacked.set(packed, unpack(packed)).get(packed);
  const tip = document.body.appendChild(Object.assign(document.createElement("div"), { id: "tip", hidden: true }));

  function map(chart, box) {
    const x = column(chart.x),
      y = column(chart.y);
    const painted = chart.count > MANY;
    const size = Math.max(2, Math.min(8, 280 / Math.sqrt(chart.count)));
    const picked = chart.columns[document.getElementById("colour")?.value ?? 0];
    const narrow = box.clientWidth < 620;
    const frame = { visible: false, fixedrange: false };
    const ranges = painted ? [x, y].map(extent) : [undefined, undefined];
    const look = layout({
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--accent") },
      dragmode: "pan",
      hovermode: "closest",
      margin: { l: 8, r: 8, t: 8, b: 8 },
      xaxis: { ...frame, constrain: "domain", range: ranges[0] },
      yaxis: { ...frame, scaleanchor: "x", range: ranges[1] },
      showlegend: true,
      uirevision: "keep", // the part that is looked at stays when the colour changes
      legend: narrow
        ? { orientation: "h", y: 0, yanchor: "top", itemsizing: "constant" }
        : { itemsizing: "constant", y: 0.94, font: { size: 11.5 } },
    });
    box.nodes = []; // positions of the nodes of each trace
    box.groups = []; // and the colours and symbols of those that are painted
    const trace = (nodes, name, marker) => {
      box.nodes.push(nodes);
      const own = marker.size ?? size;
      if (painted) box.groups.push({ nodes, x, y, size: own, color: marker.color, symbol: marker.symbol ?? "circle" });
      if (painted && marker.showscale) marker = { ...marker, color: extent(marker.color, 0) };
      const places = painted
        ? { x: [null, null], y: [null, null] }
        : { x: Float32Array.from(nodes, (at) => x[at]), y: Float32Array.from(nodes, (at) => y[at]) };
      return {
        type: "scatter",
        mode: "markers",
        name: plain(name),
        ...places,
        marker: { size, opacity: 0.8, line: { width: 0 }, ...marker },
        hoverinfo: "none",
      };
    };
    const all = Array.from({ length: chart.count }, (_, at) => at);
    if (!picked) return [[trace(all, "nodes", { color: css("--accent") })], { ...look, showlegend: false }];
    const values = column(picked.values);
    if (!picked.classes) {
      const known = all.filter((at) => !Number.isNaN(values[at]));
      const unknown = all.filter((at) => Number.isNaN(values[at]));
      const [shade, bar] = scale(
        picked.name,
        Float32Array.from(known, (at) => values[at]),
      );
      return [
        [
          ...(unknown.length ? [trace(unknown, "no value", { color: css("--rest") })] : []),
          trace(known, picked.name, { color: shade, colorscale: "Viridis", showscale: true, colorbar: bar }),
        ],
        { ...look, showlegend: false },
      ];
    }
    const groups = new Map();
    all.forEach((at) => {
      if (!groups.has(values[at])) groups.set(values[at], []);
      groups.get(values[at]).push(at);
    });
    const palette = colours();
    const rest = [
      [NONE, picked.none],
      [OTHER, picked.other],
    ].filter(([code]) => groups.has(code));
    const own = picked.classes.map((name, at) => [at, name]).filter(([code]) => groups.has(code));
    // A rare class comes last and larger, since it would be invisible otherwise.
    const labelled = own.reduce((sum, [code]) => sum + groups.get(code).length, 0);
    const rare = ([code]) => groups.get(code).length < 0.1 * labelled;
    own.sort((a, b) => rare(a) - rare(b));
    return [
      [
        ...rest.map(([code, name]) => trace(groups.get(code), name, { color: css("--rest") })),
        ...own.map(([at, name]) =>
          trace(groups.get(at), cut(name, 28), {
            color: palette[at % 8],
            symbol: SYMBOLS[Math.floor(at / 8) % 3],
            size: rare([at]) ? 1.5 * size : size,
          }),
        ),
      ],
      look,
    ];
  }

  // Smallest and largest of some numbers, with a margin as a fraction of their distance.
  function extent(values, margin = 0.04) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const pad = margin * (high - low || 1);
    return [low - pad, high + pad];
  }

  // The colour of a fraction between 0 and 1, as Plotly's scale Viridis has it.
  function viridis(fraction) {
    const at = Math.max(0, Math.min(1, fraction || 0)) * (VIRIDIS.length - 1);
    const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
    const mixed = VIRIDIS[low].map((value, part) => value + (at - low) * (VIRIDIS[low + 1][part] - value));
    return "rgb(" + mixed.map(Math.round).join(",") + ")";
  }

  function mark(pen, symbol, x, y, radius) {
    if (symbol === "square" || radius < 1.5) {
      pen.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
      return;
    }
    pen.beginPath();
    if (symbol === "circle") pen.arc(x, y, radius, 0, 2 * Math.PI);
    else [90, 210, 330].forEach((turn) => pen.lineTo(...corner(x, y, 1.2 * radius, turn)));
    pen.fill();
  }

  const corner = (x, y, radius, turn) => [
    x + radius * Math.cos((turn * Math.PI) / 180),
    y - radius * Math.sin((turn * Math.PI) / 180),
  ];

  // The part of a large map that the axes show, as an image: Plotly's own drawing of many points needs eval.
  function painting(box) {
    const { xaxis, yaxis } = box._fullLayout;
    const ratio = Math.min(2, devicePixelRatio || 1);
    const [left, right] = xaxis.range;
    const [bottom, top] = yaxis.range;
    const size = { width: Math.ceil(xaxis._length * ratio), height: Math.ceil(yaxis._length * ratio) };
    const canvas = Object.assign(document.createElement("canvas"), size);
    const pen = canvas.getContext("2d");
    const [across, down] = [size.width / (right - left), size.height / (top - bottom)];
    pen.globalAlpha = 0.8;
    box.groups.forEach((group, at) => {
      if (box.data[at].visible === "legendonly") return;
      const shaded = typeof group.color !== "string";
      const [low, high] = shaded ? extent(group.color, 0) : [0, 1];
      if (!shaded) pen.fillStyle = group.color;
      group.nodes.forEach((node, index) => {
        const [x, y] = [(group.x[node] - left) * across, (top - group.y[node]) * down];
        if (x < 0 || y < 0 || x > size.width || y > size.height) return;
        if (shaded) pen.fillStyle = viridis((group.color[index] - low) / (high - low || 1));
        mark(pen, group.symbol, x, y, (group.size * ratio) / 2);
      });
    });
    const place = { xref: "x", yref: "y", x: left, y: top, sizex: right - left, sizey: top - bottom };
    return { source: canvas.toDataURL(), ...place, sizing: "stretch", layer: "below" };
  }

  function repaint(box) {
    if (box.groups.length) Plotly.relayout(box, { images: [painting(box)] });
  }

  // The painted node nearest to the mouse, within eight pixels.
  function nearest(box, event) {
    const { xaxis, yaxis } = box._fullLayout;
    const rect = box.getBoundingClientRect();
    const x = xaxis.p2d(event.clientX - rect.left - xaxis._offset);
    const y = yaxis.p2d(event.clientY - rect.top - yaxis._offset);
    let [best, least] = [undefined, ((8 * (xaxis.range[1] - xaxis.range[0])) / xaxis._length) ** 2];
    box.groups.forEach((group, at) => {
      if (box.data[at].visible === "legendonly") return;
      for (const node of group.nodes) {
        const distance = (group.x[node] - x) ** 2 + (group.y[node] - y) ** 2;
        if (distance < least) [best, least] = [node, distance];
      }
    });
    return best;
  }

  // Colours of numbers, by their logarithm where a few are far larger than the others.
  function scale(name, values) {
    const most = values.reduce((a, b) => Math.max(a, b), -Infinity),
      least = values.reduce((a, b) => Math.min(a, b), Infinity);
    const mean = values.reduce((a, b) => a + b, 0) / Math.max(values.length, 1);
    const bar = {
      thickness: 10,
      len: 0.6,
      outlinewidth: 0,
      title: { text: plain(cut(name, 24)), side: "right", font: { size: 11 } },
      tickfont: { size: 10.5 },
    };
    if (!(least >= 0 && most > 5 * mean)) return [values, bar];
    const ticks = [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 1e4, 3e4, 1e5, 1e6].filter(
      (value) => value >= least && value <= most,
    );
    Object.assign(bar, {
      tickvals: ticks.map((value) => Math.log10(1 + value)),
      ticktext: ticks.map((value) => value.toLocaleString("en")),
    });
    return [values.map((value) => Math.log10(1 + value)), bar];
  }

  function shownValue(part, at) {
    const value = column(part.values)[at];
    if (!part.classes) return Number.isNaN(value) ? "no value" : figure(value);
    return value === NONE ? part.none : value === OTHER ? part.other : part.classes[value];
  }

  function hover(chart, at, { clientX, clientY }) {
    tip.hidden = at === undefined;
    if (tip.hidden) return;
    const title = Object.assign(document.createElement("b"), { textContent: chart.ids ? chart.ids[at] : at });
    const rows = chart.columns
      .slice(0, 8)
      .map((part) =>
        Object.assign(document.createElement("div"), { textContent: part.name + ": " + shownValue(part, at) }),
      );
    tip.replaceChildren(title, ...rows);
    tip.style.left = Math.max(4, Math.min(clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
  }

  const kinds = { lines, intervals, matrix, map };
  const boxes = [...document.querySelectorAll("[data-chart]")];
  const small = { displayModeBar: false, responsive: true };
  const big = {
    displaylogo: false,
    responsive: true,
    scrollZoom: true,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
  };

  function draw(box) {
    const chart = data[Number(box.dataset.chart)];
    const [traces, look] = kinds[chart.kind](chart, box);
    if (printing) Object.assign(look, { width: box.clientWidth, height: box.clientHeight });
    const done = Plotly.react(box, traces, look, chart.kind === "map" ? big : small);
    if (chart.kind === "map" && !box.dataset.hears) {
      box.dataset.hears = "yes";
      box.on("plotly_hover", ({ points: [point], event }) =>
        hover(chart, box.nodes[point.curveNumber]?.[point.pointNumber], event),
      );
      box.on("plotly_unhover", () => {
        tip.hidden = true;
      });
      box.on("plotly_relayout", (changed) => "images" in changed || repaint(box));
      box.on("plotly_restyle", () => repaint(box));
      box.addEventListener("mousemove", (event) => box.groups.length && hover(chart, nearest(box, event), event));
      box.addEventListener("mouseleave", () => {
        tip.hidden = true;
      });
    }
    if (chart.kind === "map") repaint(box);
    return done;
  }

  function colour() {
    root.dataset.theme = printing ? "light" : (chosen ?? (dark.matches ? "dark" : "light"));
  }

  async function drawAll() {
    colour();
    for (const box of boxes) {
      const done = draw(box);
      if (printing) continue; // the printer does not wait
      await done;
      await new Promise((next) => setTimeout(next)); // leave the page usable meanwhile
    }
    root.dataset.drawn = "yes";
  }

  function print(begins) {
    printing = begins;
    root.toggleAttribute("data-printing", begins);
    document.querySelectorAll("details:not(.long)").forEach((part) => {
      if (begins) part.dataset.was = part.open ? "open" : "";
      part.open = begins || part.dataset.was === "open";
    });
    drawAll();
  }

  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    drawAll();
  });
  document.getElementById("colour")?.addEventListener("change", () => draw(document.querySelector(".chart.map")));
  dark.addEventListener("change", drawAll);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  drawAll();
})();
