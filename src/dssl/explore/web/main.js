// The page: its state, and the updates of map, legend and panel.

import * as colour from "./colour.js";
import { download, table } from "./csv.js";
import { Data } from "./data.js";
import { count, dot, el, get, number, short } from "./dom.js";
import { distances, explainedBy, linksOf, search, sourcesOf } from "./graph.js";
import { PointMap } from "./map.js";
import * as panel from "./panel.js";

const MOST_LIT = 5000; // links of a factor on the map; more of them hide each other
const MOST_FOUND = 50; // search results shown
const MOST_SPOKES = 2000;

async function start() {
  theme(stored() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  get("loading").textContent = "Loading …";
  await new Page(await Data.open()).complete();
}

/** The page of one run: the chosen node, factor and column, the selection, and the map. */
class Page {
  constructor(data) {
    this.data = data;
    this.node = null;
    this.factor = null;
    this.column = null;
    this.lit = null;
    this.selected = new Set();
    this.hovered = -1;
    this.spokes = [];
    this.act = {
      open: (node) => this.open(node),
      hover: (node) => this.hover(node),
      select: (nodes) => this.select(nodes),
    };
    document.title = `${short(data.meta.name, 60)} · dssl explore`;
    get("title").textContent = short(data.meta.name, 60);
    get("title").title = short(data.meta.name, 400);
    get("about").textContent =
      `${count(data.nodes)} nodes, ${count(data.meta.links)} links · ${data.meta.method} · ${data.meta.how}`;
    get("about").title = get("about").textContent;
    // The map is there before ids and links.
    const ready = (answer) => (given) => document.body.dataset.ready && answer(given);
    this.map = new PointMap(get("points"), get("overlay"), data.points, {
      hover: ready((node) => this.hover(node)),
      pick: ready((node) => (node < 0 ? this.close() : this.open(node))),
      lasso: ready((nodes) => this.select(nodes)),
    });
    get("nogl").hidden = Boolean(this.map.gl);
  }

  /** Read ids and links, and show them. */
  async complete() {
    await this.data.complete();
    this.listen();
    this.data.columns.forEach((column, i) => get("colour").append(el("option", { value: i }, short(column.name, 60))));
    this.paintBy(0);
    get("loading").hidden = true;
    this.showFactors();
    this.fromAddress();
    if (this.node === null) this.showNode(null);
    document.body.dataset.ready = "yes";
  }

  listen() {
    get("colour").addEventListener("change", (event) => this.paintBy(Number(event.target.value)));
    get("theme").addEventListener("click", () => {
      theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
      keep(document.documentElement.dataset.theme);
      this.repaint();
      this.legend();
      this.showFactors();
    });
    get("fit").addEventListener("click", () => this.map.fit());
    get("lasso").addEventListener("click", () => this.lasso(!this.map.lassoing));
    get("clear").addEventListener("click", () => {
      this.selected.clear();
      this.showSelection();
    });
    get("csv").addEventListener("click", () => {
      const nodes = [...this.selected].sort((a, b) => a - b);
      download(
        `${this.data.meta.name.replace(/[^\w-]+/g, "-").slice(0, 60) || "graph"}-selection.csv`,
        table(this.data, nodes),
      );
    });
    get("search").addEventListener("input", () => this.showResults());
    get("search").addEventListener("focus", () => this.showResults());
    get("finder").addEventListener("keydown", (event) => this.inResults(event));
    document.addEventListener("pointerdown", (event) => {
      if (!get("finder").contains(event.target)) get("results").hidden = true;
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        if (this.map.lassoing) this.lasso(false);
        get("results").hidden = true;
      } else if (event.key === "/" && document.activeElement !== get("search")) {
        event.preventDefault();
        get("search").focus();
      }
    });
    window.addEventListener("hashchange", () => this.fromAddress());
  }

  /** The address names the chosen node, so that Back goes back and a place can be kept. */
  fromAddress() {
    const found = /^#n=(\d{1,9})$/.exec(location.hash);
    const node = found && Number(found[1]) < this.data.nodes ? Number(found[1]) : null;
    if (node !== this.node) this.choose(node);
  }

  open(node) {
    get("results").hidden = true;
    if (location.hash === `#n=${node}`) this.choose(node);
    else location.hash = `n=${node}`;
    if (this.node !== node) this.choose(node); // the event comes later; the answer should not
  }

  close() {
    if (this.node === null) return;
    history.pushState(null, "", location.pathname + location.search);
    this.choose(null);
  }

  choose(node) {
    this.node = node;
    if (node !== null) this.map.show(node);
    const plain = colour.themed("--soft");
    const links = node === null ? [] : linksOf(this.data, node).slice(0, MOST_SPOKES);
    this.spokes = links.map((link) => ({
      from: node,
      to: link.node,
      colour: link.q ? colour.nth(link.factor) : plain,
    }));
    this.showNode(node);
    this.marks();
  }

  mostLinks() {
    const { indptr } = this.data;
    let [best, most] = [0, -1];
    for (let node = 0; node < this.data.nodes; node += 1) {
      const degree = indptr[node + 1] - indptr[node];
      if (degree > most) [best, most] = [node, degree];
    }
    return best;
  }

  async showNode(node) {
    const home = get("node");
    home.hidden = false;
    if (node === null) {
      const hub = this.mostLinks();
      const start = el("button", { type: "button", click: () => this.act.open(hub) }, short(this.data.ids[hub], 36));
      const words = "Choose a node: click a point of the map, or find it by its id. The node with the most links: ";
      home.replaceChildren(el("p", { class: "hint" }, words, start));
      home.dataset.node = "";
      return;
    }
    const asked = this.data.nearest(node); // the server looks while this page does
    const away = distances(this.data, node);
    const near = el("div");
    home.dataset.state = "partial";
    home.dataset.node = node;
    home.replaceChildren(...panel.node(this.data, node, away, near, this.act));
    requestAnimationFrame(() => home.getBoundingClientRect().top < 0 && home.scrollIntoView());
    get("status").textContent = `Node ${short(this.data.ids[node])}`;
    try {
      near.replaceChildren(...panel.nearest(this.data, await asked, away, this.act));
      if (this.node === node) home.dataset.state = "complete";
    } catch (error) {
      near.replaceChildren(el("p", { class: "hint" }, `The nearest nodes could not be read: ${error.message}.`));
    }
  }

  showFactors() {
    get("factors").hidden = !this.data.factors;
    if (this.data.factors)
      get("factors").replaceChildren(...panel.factors(this.data, this.factor, this.lit, (k) => this.light(k)));
  }

  light(k) {
    this.factor = k;
    this.lit = null;
    if (k !== null) {
      const found = explainedBy(this.data, k, MOST_LIT);
      this.lit = { ...found, sources: sourcesOf(this.data.indptr, found.arcs), ends: new Set() };
      found.arcs.forEach((arc, i) => this.lit.ends.add(this.lit.sources[i]).add(this.data.indices[arc]));
    }
    this.showFactors();
    get("factors").querySelector(`[data-factor="${k}"]`)?.focus();
    this.litLinks();
    this.repaint();
  }

  select(nodes) {
    for (const node of nodes) this.selected.add(node);
    this.lasso(false);
    this.showSelection();
  }

  showSelection() {
    get("selection").hidden = !this.selected.size;
    get("selected").textContent = `${count(this.selected.size)} selected`;
    this.repaint();
  }

  lasso(on) {
    this.map.lassoing = on;
    get("lasso").setAttribute("aria-pressed", on);
    get("points").classList.toggle("lasso", on);
  }

  paintBy(i) {
    const column = this.data.columns[i];
    this.column = column;
    column.scale ??= column.kind === "number" ? scaleOf(column) : null;
    this.legend();
    this.repaint();
  }

  repaint() {
    const { column, selected, lit } = this;
    if (!column) return;
    const tints = new Uint8Array(4 * this.data.nodes);
    const none = colour.parse(colour.themed("--dim"));
    const byCode =
      column.kind === "category" ? column.names.map((_, code) => colour.parse(panel.tint(column, code))) : null;
    const shades = byCode ? null : Array.from({ length: 256 }, (_, i) => colour.shade(i / 255));
    const [opacity, faint] = this.data.nodes > 20_000 ? [200, 18] : [230, 38];
    for (let node = 0, at = 0; node < this.data.nodes; node += 1, at += 4) {
      const own = column.values[node];
      let rgb = none;
      if (byCode) rgb = own < 0 ? none : byCode[own];
      else if (Number.isFinite(own)) rgb = shades[Math.round(255 * column.scale.share(own))];
      tints[at] = rgb[0];
      tints[at + 1] = rgb[1];
      tints[at + 2] = rgb[2];
      const dimmed = (selected.size && !selected.has(node)) || (lit && !lit.ends.has(node));
      tints[at + 3] = dimmed ? faint : opacity;
    }
    this.map.paint(tints, rareOf(column));
    this.marks();
  }

  /** The links that the chosen factor explains, bright where they are seen from. */
  litLinks() {
    const { points } = this.data;
    const { arcs, sources } = this.lit ?? { arcs: [], sources: [] };
    const ends = new Float32Array(4 * arcs.length);
    const strokes = new Uint8Array(8 * arcs.length);
    const rgb = colour.parse(colour.nth(this.factor ?? 0));
    const strength = Math.max(30, Math.min(190, 60_000 / Math.max(arcs.length, 1)));
    arcs.forEach((arc, i) => {
      [sources[i], this.data.indices[arc]].forEach((node, end) => {
        ends.set([points[2 * node], points[2 * node + 1]], 4 * i + 2 * end);
        strokes.set([...rgb, end ? strength / 4 : strength], 8 * i + 4 * end);
      });
    });
    this.map.link(ends, strokes);
  }

  /** Rings around the node that is chosen and the one under the pointer, and the links of the chosen one. */
  marks() {
    const rings = [];
    if (this.node !== null) rings.push({ node: this.node, colour: colour.themed("--text"), radius: 4 });
    if (this.hovered >= 0) rings.push({ node: this.hovered, colour: colour.themed("--accent"), radius: 3 });
    this.map.mark(rings, this.spokes);
  }

  hover(node, x, y) {
    const tip = get("tip");
    get("points").classList.toggle("over", node >= 0 && !this.map.lassoing);
    if (node !== this.hovered) {
      this.hovered = node;
      this.marks();
    }
    tip.hidden = node < 0 || !this.data.ids;
    if (tip.hidden) return;
    const facts = [this.data.column("label"), this.data.column("factor")]
      .filter((column) => column?.values && column.values[node] >= 0)
      .map((column) => short(panel.value(column, node), 60));
    tip.replaceChildren(
      el("strong", {}, short(this.data.ids[node])),
      ...(facts.length ? [el("br"), facts.join(" · ")] : []),
    );
    const [px, py] = x === undefined ? this.map.toScreen(node) : [x, y];
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, px + 16 + box.width > this.map.width ? px - box.width - 12 : px + 16)}px`;
    tip.style.top = `${Math.max(4, Math.min(py + 14, this.map.height - box.height - 4))}px`;
  }

  legend() {
    const { column } = this;
    const home = get("legend");
    if (column.kind === "number") {
      const { low, high, log } = column.scale;
      const scale = el("span", { class: "scale" });
      scale.style.background = colour.gradient();
      home.replaceChildren(
        scale,
        el(
          "span",
          { class: "ends soft" },
          el("span", {}, number(low)),
          el("span", {}, log ? "log" : ""),
          el("span", {}, number(high)),
        ),
      );
      return;
    }
    const sizes = panel.counts(column);
    const entry = (text, tint, size, wanted) =>
      el(
        "button",
        {
          type: "button",
          title: `Select these ${count(size)} nodes`,
          click: () => this.select(where(column.values, wanted)),
        },
        dot(tint),
        el("span", { class: "clip" }, text),
        el("span", { class: "count" }, count(size)),
      );
    const rows = [];
    let [rest, missing] = [0, this.data.nodes];
    const grey = colour.themed("--dim");
    const codes = Array.from(sizes.keys());
    if (codes.length > colour.MOST_CLASSES && column.role !== "factor")
      codes.sort((a, b) => sizes[b] - sizes[a] || a - b);
    const shown = new Set(column.role === "factor" ? codes : codes.slice(0, colour.MOST_CLASSES));
    for (const code of codes) {
      missing -= sizes[code];
      if (shown.has(code))
        rows.push(entry(short(column.names[code], 60), panel.tint(column, code), sizes[code], (own) => own === code));
      else rest += sizes[code];
    }
    if (rest)
      rows.push(entry(`${count(codes.length - shown.size)} others`, grey, rest, (own) => own >= 0 && !shown.has(own)));
    if (missing) rows.push(entry("none", grey, missing, (own) => own < 0));
    home.replaceChildren(...rows);
  }

  showResults() {
    const text = get("search").value.trim();
    const home = get("results");
    home.hidden = !text;
    if (!text) return;
    const found = search(this.data.lowered, text);
    const words = found.length ? `${count(found.length)} found` : "No id holds this text.";
    const top = el("p", { class: "hint" }, words);
    if (found.length > 1)
      top.append(
        " ",
        el("button", { type: "button", click: () => this.select(found) }, `Select ${count(found.length)}`),
      );
    home.replaceChildren(
      top,
      el("ul", {}, ...found.slice(0, MOST_FOUND).map((node) => panel.row(this.data, node, this.act))),
    );
    get("status").textContent = words;
  }

  inResults(event) {
    const rows = [...get("results").querySelectorAll("li button")];
    const at = rows.indexOf(document.activeElement);
    if (event.key === "Enter" && event.target === get("search") && rows.length) rows[0].click();
    else if (event.key === "ArrowDown" && at + 1 < rows.length) rows[at + 1].focus();
    else if (event.key === "ArrowUp" && at > 0) rows[at - 1].focus();
    else if (event.key === "ArrowUp" && at === 0) get("search").focus();
    else return;
    event.preventDefault();
  }
}

/** From a number to 0 … 1 between the extremes, by logarithms where the largest would leave the rest in the dark. */
function scaleOf(column) {
  const finite = column.values.filter(Number.isFinite);
  let [low, high] = [Infinity, -Infinity];
  for (const each of finite) {
    low = Math.min(low, each);
    high = Math.max(high, each);
  }
  const log = low >= 0 && high > 0 && finite.slice().sort()[finite.length >> 1] < high / 20;
  const f = log ? Math.log1p : (each) => each;
  const room = f(high) - f(low) || 1;
  return { low, high, log, share: (each) => (f(each) - f(low)) / room };
}

/** Whether each node is of a class with less than a tenth of the labels; null if the column has no such class. */
function rareOf(column) {
  if (column.rare !== undefined) return column.rare;
  column.rare = null;
  if (column.kind === "category" && column.role !== "factor") {
    const sizes = panel.counts(column);
    const labelled = sizes.reduce((sum, size) => sum + size, 0);
    const rare = Array.from(sizes, (size) => size < 0.1 * labelled);
    if (rare.some(Boolean)) column.rare = Uint8Array.from(column.values, (code) => (code >= 0 && rare[code] ? 1 : 0));
  }
  return column.rare;
}

function where(values, wanted) {
  const found = [];
  values.forEach((own, node) => wanted(own) && found.push(node));
  return found;
}

function theme(name) {
  document.documentElement.dataset.theme = name;
}

function stored() {
  try {
    return localStorage.getItem("dssl-theme");
  } catch {
    return null; // storage may be forbidden; then the system's choice holds
  }
}

function keep(name) {
  try {
    localStorage.setItem("dssl-theme", name);
  } catch {
    // as above
  }
}

start().catch((error) => {
  get("loading").hidden = false;
  get("loading").textContent = `The data could not be read: ${error.message}`;
  console.error(error);
});
