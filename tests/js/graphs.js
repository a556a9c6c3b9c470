// Small graphs written by hand, in the form that data.js gives them.

import { reversed } from "../../src/dssl/explore/web/data.js";

/** A graph from arcs `[from, to]`; undirected unless `directed`, then each arc counts both ways. */
export function graph(nodes, arcs, { directed = false, factors = 0, linkQ = null, nodeQ = null } = {}) {
  const all = directed ? arcs : arcs.flatMap(([from, to]) => (from === to ? [[from, to]] : [[from, to], [to, from]])); // prettier-ignore
  const sorted = all.slice().sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const indptr = new Uint32Array(nodes + 1);
  for (const [from] of sorted) indptr[from + 1] += 1;
  for (let i = 1; i <= nodes; i += 1) indptr[i] += indptr[i - 1];
  const indices = Uint32Array.from(sorted, (arc) => arc[1]);
  const data = { nodes, factors, indptr, indices, linkQ, nodeQ, incoming: null };
  if (directed) data.incoming = reversed(indptr, indices);
  return data;
}

export const path = (nodes) =>
  graph(
    nodes,
    Array.from({ length: nodes - 1 }, (_, i) => [i, i + 1]),
  );
