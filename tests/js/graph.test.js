import assert from "node:assert/strict";
import { test } from "node:test";

import { reversed } from "../../src/dssl/explore/web/data.js";
import {
  classPairs,
  distances,
  drawn,
  explainedBy,
  FAR,
  farAlike,
  linksOf,
  nodePosterior,
  NOWHERE,
  search,
  sourcesOf,
  usage,
} from "../../src/dssl/explore/web/graph.js";
import { graph, path } from "./graphs.js";

/** Breadth first over a queue, as in a textbook. */
function literal(data, start) {
  const neighbours = Array.from({ length: data.nodes }, () => new Set());
  for (let node = 0; node < data.nodes; node += 1) {
    for (let arc = data.indptr[node]; arc < data.indptr[node + 1]; arc += 1) {
      neighbours[node].add(data.indices[arc]);
      neighbours[data.indices[arc]].add(node);
    }
  }
  const found = Array(data.nodes).fill(NOWHERE);
  found[start] = 0;
  const queue = [start];
  while (queue.length) {
    const node = queue.shift();
    for (const other of neighbours[node]) {
      if (found[other] !== NOWHERE) continue;
      found[other] = found[node] + 1;
      queue.push(other);
    }
  }
  return found;
}

/** Arcs by a linear congruential generator: the same in every run. */
function randomArcs(nodes, count, seed) {
  let state = seed;
  const next = () => (state = (1103515245 * state + 12345) % 2147483648) / 2147483648;
  return Array.from({ length: count }, () => [Math.floor(next() * nodes), Math.floor(next() * nodes)]);
}

test("distances count links along a path", () => {
  assert.deepEqual([...distances(path(5), 0)], [0, 1, 2, 3, 4]);
  assert.deepEqual([...distances(path(5), 2)], [2, 1, 0, 1, 2]);
});

test("a node without a path is NOWHERE", () => {
  assert.deepEqual([...distances(graph(4, [[0, 1]]), 0)], [0, 1, NOWHERE, NOWHERE]);
});

test("distances ignore the direction of links", () => {
  const data = graph(3, [[1, 0], [1, 2]], { directed: true }); // prettier-ignore
  assert.deepEqual([...distances(data, 0)], [0, 1, 2]);
});

for (const [nodes, arcs, directed] of [
  [40, 30, false], // sparse: several components
  [200, 300, false],
  [200, 300, true],
  [300, 3000, false], // dense: levels above a sixteenth of the nodes, the bottom-up search
  [300, 3000, true],
]) {
  test(`distances equal a textbook search: ${nodes} nodes, ${arcs} arcs, directed ${directed}`, () => {
    const data = graph(nodes, randomArcs(nodes, arcs, 7), { directed });
    for (const start of [0, 1, nodes - 1]) assert.deepEqual([...distances(data, start)], literal(data, start));
  });
}

test("reversed lists each arc by its end, with its position", () => {
  const data = graph(3, [[0, 1], [0, 2], [2, 1]], { directed: true }); // prettier-ignore
  const { indptr, indices, arc } = reversed(data.indptr, data.indices);
  assert.deepEqual([...indptr], [0, 0, 2, 3]);
  assert.deepEqual([...indices], [0, 2, 0]);
  assert.deepEqual([...arc], [0, 2, 1]);
});

test("links of a node come by factor, then by certainty", () => {
  // arcs of node 0 in order: 1, 2, 3; then one back from each
  const linkQ = Uint8Array.from([204, 51, 0, 255, 255, 0, 204, 51, 0, 255, 255, 0]);
  const data = graph(4, [[0, 1], [0, 2], [0, 3]], { factors: 2, linkQ }); // prettier-ignore
  const found = linksOf(data, 0);
  assert.deepEqual(
    found.map((link) => [link.node, link.factor, link.certainty, link.arrow]),
    [
      [3, 0, 1, ""],
      [1, 0, 0.8, ""],
      [2, 1, 1, ""],
    ],
  );
  assert.deepEqual(found[1].q, [0.8, 0.2]);
});

test("links of a directed graph have arrows, and the incoming ones their own posterior", () => {
  const linkQ = Uint8Array.from([255, 0, 0, 255]);
  const data = graph(3, [[0, 1], [2, 0]], { directed: true, factors: 2, linkQ }); // prettier-ignore
  assert.deepEqual(
    linksOf(data, 0).map((link) => [link.node, link.arrow, link.factor]),
    [
      [1, "→", 0],
      [2, "←", 1],
    ],
  );
});

test("links of a run without factors have no posterior", () => {
  assert.deepEqual(linksOf(path(2), 0), [{ node: 1, arrow: "", q: null, factor: 0, certainty: 0 }]);
});

test("drawn keeps the most certain links in their order, ties included up to the limit", () => {
  const links = [0.5, 0.9, 0.5, 0.7, 0.5].map((certainty, node) => ({ node, certainty }));
  assert.deepEqual(drawn(links, 3).map((link) => link.node), [0, 1, 3]); // prettier-ignore
  assert.equal(drawn(links, 5), links);
});

test("the posterior of a node without links is missing", () => {
  const data = { factors: 2, nodeQ: Float32Array.from([0.25, 0.75, 0, 0]) };
  assert.deepEqual(nodePosterior(data, 0), [0.25, 0.75]);
  assert.equal(nodePosterior(data, 1), null);
  assert.equal(nodePosterior({ factors: 0 }, 0), null);
});

test("farAlike ranks distant nodes by the overlap of posteriors", () => {
  const nodeQ = Float32Array.from([1, 0, 1, 0, 1, 0, 1, 0, 0.5, 0.5, 1, 0, 0, 1]);
  const data = { ...path(7), factors: 2, nodeQ };
  const { least, found } = farAlike(data, 0, distances(data, 0), 2);
  assert.equal(least, FAR);
  assert.deepEqual(
    found.map((each) => [each.node, each.overlap, each.distance]),
    [
      [5, 1, 5],
      [4, 0.5, 4],
    ],
  );
});

test("farAlike accepts one link less where few nodes are far", () => {
  const data = { ...path(4), factors: 2, nodeQ: Float32Array.from([1, 0, 1, 0, 1, 0, 1, 0]) };
  const { least, found } = farAlike(data, 0, distances(data, 0), 5);
  assert.equal(least, FAR - 1);
  assert.deepEqual(found.map((each) => each.node), [3]); // prettier-ignore
});

test("explainedBy sorts the links of a factor by its posterior; a tie goes to the lower factor", () => {
  const linkQ = Uint8Array.from([200, 55, 100, 155, 128, 128, 255, 0]);
  const data = { factors: 2, linkQ, indices: new Uint32Array(4) };
  assert.deepEqual([...explainedBy(data, 0, 10).arcs], [3, 0, 2]);
  assert.equal(explainedBy(data, 0, 1).total, 3);
  assert.deepEqual([...explainedBy(data, 0, 1).arcs], [3]);
  assert.deepEqual([...explainedBy(data, 1, 10).arcs], [1]);
});

test("sourcesOf finds the start of each arc, past nodes without arcs", () => {
  assert.deepEqual(sourcesOf(Uint32Array.from([0, 2, 2, 3, 3, 5]), [0, 1, 2, 3, 4]), [0, 0, 2, 4, 4]);
});

test("classPairs weights each link by the factor and leaves unlabelled nodes out", () => {
  const linkQ = Uint8Array.from([255, 0, 255, 255, 0, 255]); // arcs 0→1, 0→2, 1→0, 1→2, 2→0, 2→1
  const data = graph(3, [[0, 1], [0, 2], [1, 2]], { factors: 1, linkQ }); // prettier-ignore
  const label = { values: [0, 1, -1], names: ["a", "b"] };
  assert.deepEqual(classPairs(data, 0, label, 5), [
    { from: 0, to: 1, share: 0.5 },
    { from: 1, to: 0, share: 0.5 },
  ]);
  assert.deepEqual(classPairs(data, 0, { values: [-1, -1, -1], names: [] }, 5), []);
});

test("usage is the mean posterior, and zero without links", () => {
  assert.deepEqual(usage({ factors: 2, linkQ: Uint8Array.from([255, 0, 0, 255, 255, 0, 255, 0]) }), [0.75, 0.25]);
  assert.deepEqual(usage({ factors: 2, linkQ: new Uint8Array(0) }), [0, 0]);
});

test("search puts the same id first, then prefixes, then the rest, whatever the case", () => {
  assert.deepEqual(search(["xann", "anna", "ann", "bob"], "ANN"), [2, 1, 0]);
  assert.deepEqual(search(["a"], "b"), []);
});
