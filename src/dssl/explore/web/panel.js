// The panel next to the map: the factors, and everything about one node.

import * as colour from "./colour.js";
import { bar, count, dot, el, number, percent, short, svg } from "./dom.js";
import { NOWHERE, classPairs, drawn, farAlike, linksOf, nodePosterior, usage } from "./graph.js";

const AT_FIRST = 6; // rows of a list before it is opened
const MOST_ROWS = 200;
const MOST_DRAWN = 30;
const FAR_NODES = 12;

/** A factor in words: its number, and its name if it has one. */
const title = (data, k) => data.column("factor")?.names[k] ?? `factor ${k}`;

/** The factors as buttons; the chosen one with its links. */
export function factors(data, chosen, lit, choose) {
  const made = [el("h2", {}, "Factors")];
  const shares = (data.usage ??= usage(data));
  const chips = shares.map((share, k) =>
    el(
      "button",
      { type: "button", "aria-pressed": k === chosen, "data-factor": k, click: () => choose(k === chosen ? null : k) },
      dot(colour.nth(k)),
      `${k}`,
      el("span", { class: "soft" }, percent(share)),
    ),
  );
  made.push(
    el(
      "div",
      { class: "chips", role: "group", "aria-label": "Factors and the fraction of links that each explains" },
      ...chips,
    ),
  );
  if (chosen === null) {
    made.push(el("p", { class: "hint" }, "Choose one to light up the links that it explains."));
    if (data.meta.kinds) made.push(kindTable(data, data.meta.kinds));
    return made;
  }
  const shown =
    lit.total > lit.arcs.length
      ? `The ${count(lit.arcs.length)} most certain of ${count(lit.total)}`
      : `All ${count(lit.total)}`;
  const directions = data.meta.directed ? "links" : "links, seen from their bright end,";
  made.push(el("p", { class: "hint", id: "lit" }, `${shown} ${directions} that ${title(data, chosen)} explains best.`));
  const label = data.column("label");
  if (label) {
    const pairs = classPairs(data, chosen, label, 4);
    const name = (code) => short(label.names[code], 28);
    const rows = pairs.map(({ from, to, share }) =>
      el(
        "span",
        {},
        dot(tint(label, from)),
        name(from),
        " → ",
        dot(tint(label, to)),
        name(to),
        el("span", { class: "soft" }, percent(share)),
      ),
    );
    if (rows.length) made.push(el("div", { class: "shares", "aria-label": "Classes that it links most" }, ...rows));
  }
  return made;
}

/** Links by most probable factor and kind: a darker cell has a larger fraction of its row. */
function kindTable(data, { names, table }) {
  const head = el("tr", {}, el("th", {}, "factor"), ...names.map((name) => el("th", {}, short(name, 12))));
  const rows = table.map((row, k) => {
    const total = Math.max(
      row.reduce((sum, value) => sum + value, 0),
      1,
    );
    const cells = row.map((value) => {
      const cell = el("td", { title: percent(value / total) }, count(value));
      cell.style.background = `color-mix(in srgb, currentColor ${Math.round((40 * value) / total)}%, transparent)`;
      return cell;
    });
    return el("tr", { title: title(data, k) }, el("th", {}, dot(colour.nth(k)), `${k}`), ...cells);
  });
  return el("table", { class: "kinds", "aria-label": "Links by factor and kind" }, head, ...rows);
}

/** Everything about a node; its nearest nodes, which are on their way, go to `home` later. */
export function node(data, chosen, away, home, act) {
  const label = data.column("label");
  const links = linksOf(data, chosen);
  const q = nodePosterior(data, chosen);
  const made = [el("p", { class: "id", title: short(data.ids[chosen], 400) }, data.ids[chosen])];
  const facts = [];
  if (label)
    facts.push(label.values[chosen] < 0 ? "no label" : `label ${short(label.names[label.values[chosen]], 60)}`);
  facts.push(links.length === 1 ? "1 link" : `${count(links.length)} links`);
  made.push(el("p", { class: "hint" }, facts.join(" · ")));
  const values = data.columns.filter((column) => !column.role);
  if (values.length) {
    made.push(
      el(
        "dl",
        {},
        ...values.flatMap((column) => [
          el("dt", { class: "clip" }, short(column.name, 60)),
          el("dd", {}, short(value(column, chosen), 120)),
        ]),
      ),
    );
  }
  if (q) {
    made.push(el("h2", {}, "Its factors"), bar(q, colour.nth, true));
    const order = q
      .map((share, k) => [share, k])
      .sort((a, b) => b[0] - a[0])
      .filter(([share]) => share >= 0.005)
      .slice(0, 6);
    made.push(
      el(
        "div",
        { class: "shares" },
        ...order.map(([share, k]) =>
          el("span", {}, dot(colour.nth(k)), title(data, k), el("span", { class: "soft" }, percent(share))),
        ),
      ),
    );
  }
  if (links.length) {
    made.push(heading("Its links", links, act));
    made.push(ego(data, chosen, links, act));
    made.push(
      list(
        links.map((link) =>
          row(
            data,
            link.node,
            act,
            link.arrow,
            link.q && bar(link.q, colour.nth),
            link.q && `${link.factor}: ${percent(link.certainty)}`,
          ),
        ),
      ),
    );
  }
  made.push(home);
  home.replaceChildren(heading("Nearest in the embedding", [], act), el("p", { class: "hint" }, "Looking …"));
  if (data.factors) {
    const { least, found } = q ? farAlike(data, chosen, away, FAR_NODES) : { found: [] };
    made.push(heading("Far away, for the same reasons", found, act));
    if (data.factors < 2) made.push(el("p", { class: "hint" }, "With one factor, all nodes have the same reasons."));
    else if (!q) made.push(el("p", { class: "hint" }, "A node without links has no factors."));
    else if (!found.length) made.push(el("p", { class: "hint" }, `No node is ${least} or more links away.`));
    else {
      made.push(el("p", { class: "hint" }, `At least ${least} links away, by the overlap of the factors.`));
      made.push(
        list(
          found.map((other) =>
            row(
              data,
              other.node,
              act,
              steps(other.distance),
              bar(nodePosterior(data, other.node), colour.nth),
              percent(other.overlap),
              "overlap",
            ),
          ),
        ),
      );
    }
  }
  return made;
}

/** The nodes with the most similar vectors. */
export function nearest(data, found, away, act) {
  const title = heading("Nearest in the embedding", found, act);
  if (!found.length) return [title, el("p", { class: "hint" }, "There is no other node.")];
  return [
    title,
    list(
      found.map((each) => row(data, each.node, act, steps(away[each.node]), null, each.cosine.toFixed(3), "cosine")),
    ),
  ];
}

function heading(text, rows, act) {
  const made = el("h2", {}, text);
  if (rows.length) {
    const nodes = rows.map((each) => each.node);
    made.append(
      el(
        "button",
        { type: "button", title: "Add these nodes to the selection", click: () => act.select(nodes) },
        `Select ${count(new Set(nodes).size)}`,
      ),
    );
  }
  return made;
}

export function row(data, other, act, note, picture, figure, meaning) {
  const label = data.column("label");
  const parts = [el("span", { class: "clip", title: short(data.ids[other], 400) }, short(data.ids[other], 36))];
  if (label) parts.unshift(dot(tint(label, label.values[other])));
  if (note) parts.push(el("span", { class: "soft" }, note));
  if (picture) parts.push(picture);
  if (figure) parts.push(el("span", { class: "soft", title: meaning }, figure));
  const hover = () => act.hover(other);
  return el(
    "li",
    {},
    el(
      "button",
      {
        type: "button",
        "data-node": other,
        click: () => act.open(other),
        mouseenter: hover,
        focus: hover,
        mouseleave: () => act.hover(-1),
      },
      ...parts,
    ),
  );
}

function list(rows) {
  const made = el("ul", {}, ...rows.slice(0, AT_FIRST));
  if (rows.length <= AT_FIRST) return made;
  const shown = Math.min(rows.length, MOST_ROWS);
  const text = shown < rows.length ? `Show ${count(shown)} of ${count(rows.length)}` : `Show all ${count(rows.length)}`;
  const more = el(
    "button",
    {
      type: "button",
      class: "more",
      click: () => {
        made.append(...rows.slice(AT_FIRST, shown));
        rows[AT_FIRST].querySelector("button").focus();
        more.remove();
      },
    },
    text,
  );
  return el("div", {}, made, more);
}

function steps(distance) {
  if (distance === NOWHERE) return "no path";
  return distance === 1 ? "linked" : `${distance} links`;
}

/** The colour of a category by its place among the categories, the most frequent first. */
export function tint(column, code) {
  if (code < 0) return colour.themed("--dim");
  if (column.role === "factor") return colour.nth(code);
  column.ranks ??= ranks(column);
  return column.ranks[code] < colour.MOST_CLASSES ? colour.nth(column.ranks[code]) : colour.themed("--dim");
}

export function counts(column) {
  const found = new Uint32Array(column.names.length);
  for (const code of column.values) if (code >= 0) found[code] += 1;
  return found;
}

function ranks(column) {
  const sizes = counts(column);
  const order = Array.from(sizes.keys());
  if (order.length > colour.MOST_CLASSES) order.sort((a, b) => sizes[b] - sizes[a] || a - b);
  const found = new Uint32Array(order.length);
  order.forEach((code, rank) => (found[code] = rank));
  return found;
}

export function value(column, node) {
  const own = column.values[node];
  if (column.kind === "category") return own < 0 ? "–" : column.names[own];
  return number(own);
}

/** The node in the middle, its links as spokes: each spoke is a bar of the factors that explain it. */
function ego(data, chosen, all, act) {
  const links = drawn(all, MOST_DRAWN);
  const label = data.column("label");
  const [width, height] = [356, 300];
  const named = links.length <= 14;
  const [rx, ry] = named ? [118, 112] : [140, 134];
  const place = (i) => {
    const angle = (2 * Math.PI * i) / links.length - Math.PI / 2;
    return [width / 2 + rx * Math.cos(angle), height / 2 + ry * Math.sin(angle)];
  };
  const words =
    links.length < all.length
      ? `${links.length} of ${count(all.length)} links, the most certain`
      : `${count(all.length)} links`;
  const picture = svg("svg", {
    class: "ego",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `Neighbourhood: ${words}`,
  });
  const index = new Map(links.map((link, i) => [link.node, i]));
  for (const [other, i] of index) {
    for (let arc = data.indptr[other], end = Math.min(data.indptr[other + 1], arc + 5000); arc < end; arc += 1) {
      const j = index.get(data.indices[arc]);
      if (j === undefined || (j <= i && !data.incoming)) continue;
      const [[ax, ay], [bx, by]] = [place(i), place(j)];
      picture.append(svg("line", { class: "mesh", x1: ax, y1: ay, x2: bx, y2: by }));
    }
  }
  const spoke = Math.max(3, Math.min(9, 160 / links.length));
  links.forEach((link, i) => {
    const [x, y] = place(i);
    const at = (share) => [width / 2 + (x - width / 2) * share, height / 2 + (y - height / 2) * share];
    let begin = 0.14;
    const sum = link.q?.reduce((total, share) => total + share, 0) || 1;
    (link.q ?? [1]).forEach((share, k) => {
      const end = begin + (0.94 - 0.14) * (link.q ? share / sum : 1);
      if (end - begin > 0.004) {
        const [[ax, ay], [bx, by]] = [at(begin), at(end)];
        picture.append(
          svg("line", {
            x1: ax,
            y1: ay,
            x2: bx,
            y2: by,
            stroke: link.q ? colour.nth(k) : colour.themed("--dim"),
            "stroke-width": link.q ? spoke : 2,
          }),
        );
      }
      begin = end;
    });
    const group = svg("g", {
      class: "other",
      "data-node": link.node,
      click: () => act.open(link.node),
      mouseenter: () => act.hover(link.node),
      mouseleave: () => act.hover(-1),
    });
    group.append(svg("title", {}, short(data.ids[link.node], 200)));
    group.append(
      svg("circle", {
        cx: x,
        cy: y,
        r: links.length > 18 ? 6 : 8,
        fill: label ? tint(label, label.values[link.node]) : colour.themed("--soft"),
      }),
    );
    if (named) {
      const right = x > width / 2 + 1;
      const middle = Math.abs(x - width / 2) <= 1;
      const text = svg("text", {
        x: middle ? x : x + (right ? 12 : -12),
        y: middle ? y + (y < height / 2 ? -13 : 20) : y + 4,
        "text-anchor": middle ? "middle" : right ? "start" : "end",
      });
      text.textContent = short(data.ids[link.node], middle ? 30 : 9);
      group.append(text);
    }
    picture.append(group);
  });
  picture.append(svg("circle", { class: "centre", cx: width / 2, cy: height / 2, r: 11 }));
  if (links.length === all.length) return picture;
  return el("div", {}, picture, el("p", { class: "hint" }, `${words}, are drawn.`));
}
