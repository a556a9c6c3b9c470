// Queries of the graph: distances, distant similar nodes, links of a factor. No drawing here.

export const FAR = 4; // links: nodes at this distance share no neighbour, nor have neighbours that are linked

export const NOWHERE = 65_535; // the distance of what no path leads to

/**
 * Number of links from a node to each other one, whatever their direction; NOWHERE if no path leads there.
 *
 * Breadth first, level by level. Where a level is large, the nodes that are left look for a neighbour in it, which
 * they find soon, instead of the level looking at all of its links (Beamer et al., SC 2012).
 */
export function distances(data, start) {
  const found = new Uint16Array(data.nodes).fill(NOWHERE);
  const queue = new Uint32Array(data.nodes);
  const ways = data.incoming ? [data, data.incoming] : [data];
  found[start] = 0;
  queue[0] = start;
  let [begin, end] = [0, 1];
  for (let level = 0; begin < end; level = Math.min(level + 1, NOWHERE - 2)) {
    const stop = end;
    for (const { indptr, indices } of ways) {
      if (stop - begin > data.nodes / 16) end = meet(level, indptr, indices, found, queue, end);
      else end = reach(level, indptr, indices, found, queue, begin, stop, end);
    }
    begin = stop;
  }
  return found;
}

function reach(level, indptr, indices, found, queue, begin, stop, end) {
  for (let at = begin; at < stop; at += 1) {
    const last = indptr[queue[at] + 1];
    for (let i = indptr[queue[at]]; i < last; i += 1) {
      const other = indices[i];
      if (found[other] === NOWHERE) {
        found[other] = level + 1;
        queue[end] = other;
        end += 1;
      }
    }
  }
  return end;
}

function meet(level, indptr, indices, found, queue, end) {
  for (let node = 0; node < found.length; node += 1) {
    if (found[node] !== NOWHERE) continue;
    const last = indptr[node + 1];
    for (let i = indptr[node]; i < last; i += 1) {
      if (found[indices[i]] === level) {
        found[node] = level + 1;
        queue[end] = node;
        end += 1;
        break;
      }
    }
  }
  return end;
}

/** The links of a node, by main factor and then the most certain first: `{node, q, factor, certainty, arrow}`. */
export function linksOf(data, node) {
  const found = [];
  const add = (other, arc, arrow) => found.push({ node: other, arrow, ...posterior(data, arc) });
  for (let arc = data.indptr[node]; arc < data.indptr[node + 1]; arc += 1) {
    add(data.indices[arc], arc, data.incoming ? "→" : "");
  }
  if (data.incoming) {
    for (let at = data.incoming.indptr[node]; at < data.incoming.indptr[node + 1]; at += 1) {
      add(data.incoming.indices[at], data.incoming.arc[at], "←");
    }
  }
  return found.sort((a, b) => a.factor - b.factor || b.certainty - a.certainty || a.node - b.node);
}

/** q(k | v_i, z_j) of a link as shares; nothing for a run without factors. */
function posterior(data, arc) {
  if (!data.factors) return { q: null, factor: 0, certainty: 0 };
  const q = Array.from(data.linkQ.subarray(arc * data.factors, (arc + 1) * data.factors), (part) => part / 255);
  const certainty = Math.max(...q);
  return { q, factor: q.indexOf(certainty), certainty };
}

/** Up to `most` of a node's links for a drawing: the most certain ones, in their order. */
export function drawn(links, most) {
  if (links.length <= most) return links;
  const least = links.map((link) => link.certainty).sort((a, b) => b - a)[most - 1];
  const kept = links.filter((link) => link.certainty > least);
  const ties = links.filter((link) => link.certainty === least).slice(0, most - kept.length);
  const chosen = new Set([...kept, ...ties]);
  return links.filter((link) => chosen.has(link));
}

/** q(k | v) of a node as shares; nothing for a run without factors or a node without links. */
export function nodePosterior(data, node) {
  if (!data.factors) return null;
  const q = Array.from(data.nodeQ.subarray(node * data.factors, (node + 1) * data.factors));
  return q.some((share) => share > 0) ? q : null;
}

/**
 * Nodes at least FAR links away whose posterior is most like that of a node; where there are fewer than `top` such
 * nodes, one link less will do. Likeness is the overlap of the distributions: 1 − ½ Σ |q_k − q'_k|.
 */
export function farAlike(data, node, away, top) {
  const own = nodePosterior(data, node);
  if (!own || data.factors < 2) return { least: FAR, found: [] };
  const { factors, nodeQ } = data;
  const search = (least) => {
    const best = [];
    for (let other = 0; other < data.nodes; other += 1) {
      if (other === node || away[other] < least) continue;
      let apart = 0;
      let sum = 0;
      for (let k = 0, at = other * factors; k < factors; k += 1, at += 1) {
        sum += nodeQ[at];
        apart += Math.abs(nodeQ[at] - own[k]);
      }
      const overlap = 1 - apart / 2;
      if (sum === 0 || (best.length === top && overlap <= best[top - 1].overlap)) continue;
      let place = best.length;
      while (place > 0 && best[place - 1].overlap < overlap) place -= 1;
      best.splice(place, 0, { node: other, overlap, distance: away[other] });
      if (best.length > top) best.pop();
    }
    return best;
  };
  const found = search(FAR);
  if (found.length >= Math.min(top, data.nodes - 1)) return { least: FAR, found };
  const nearer = search(FAR - 1);
  return nearer.length > found.length ? { least: FAR - 1, found: nearer } : { least: FAR, found };
}

/** Links whose most probable factor is `k`, the most certain first, up to `most`; and how many there are in all. */
export function explainedBy(data, k, most) {
  const { factors, linkQ } = data;
  const arcs = data.indices.length;
  const counts = new Uint32Array(256);
  const strength = new Int16Array(arcs).fill(-1);
  for (let arc = 0, at = 0; arc < arcs; arc += 1, at += factors) {
    const own = linkQ[at + k];
    let first = true;
    for (let other = 0; other < factors && first; other += 1) {
      const rival = linkQ[at + other];
      first = other < k ? rival < own : rival <= own;
    }
    if (first) {
      strength[arc] = own;
      counts[own] += 1;
    }
  }
  const total = counts.reduce((sum, value) => sum + value, 0);
  const starts = new Uint32Array(256); // a counting sort, largest first
  for (let value = 254; value >= 0; value -= 1) starts[value] = starts[value + 1] + counts[value + 1];
  const sorted = new Uint32Array(total);
  for (let arc = 0; arc < arcs; arc += 1) if (strength[arc] >= 0) sorted[starts[strength[arc]]++] = arc;
  return { arcs: sorted.subarray(0, most), total };
}

/** The start of each link of a list. */
export function sourcesOf(indptr, arcs) {
  return Array.from(arcs, (arc) => {
    let low = 0;
    let high = indptr.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (indptr[middle] <= arc) low = middle;
      else high = middle;
    }
    return low;
  });
}

/** Which pairs of classes a factor links most, by its posterior on each link: `{from, to, share}`, largest first. */
export function classPairs(data, k, label, top) {
  const sums = new Map();
  let total = 0;
  for (let node = 0; node < data.nodes; node += 1) {
    const from = label.values[node];
    if (from < 0) continue;
    for (let arc = data.indptr[node]; arc < data.indptr[node + 1]; arc += 1) {
      const to = label.values[data.indices[arc]];
      if (to < 0) continue;
      const key = from * label.names.length + to;
      const weight = data.linkQ[arc * data.factors + k];
      sums.set(key, (sums.get(key) ?? 0) + weight);
      total += weight;
    }
  }
  if (!total) return [];
  return [...sums]
    .sort((a, b) => b[1] - a[1] || a[0] - b[0])
    .slice(0, top)
    .map(([key, sum]) => ({
      from: Math.floor(key / label.names.length),
      to: key % label.names.length,
      share: sum / total,
    }));
}

/** Mean posterior over all links: how much of the graph each factor explains. */
export function usage(data) {
  const sums = new Float64Array(data.factors);
  for (let at = 0; at < data.linkQ.length;) for (let k = 0; k < data.factors; k += 1) sums[k] += data.linkQ[at++];
  const total = sums.reduce((sum, part) => sum + part, 0) || 1;
  return Array.from(sums, (part) => part / total);
}

/** Nodes whose id holds a text, whatever its case: the same id first, then those that begin with it. */
export function search(lowered, text) {
  const wanted = text.toLowerCase();
  const [same, begins, holds] = [[], [], []];
  for (let node = 0; node < lowered.length; node += 1) {
    const at = lowered[node].indexOf(wanted);
    if (at > 0) holds.push(node);
    else if (at === 0) (lowered[node].length === wanted.length ? same : begins).push(node);
  }
  return [...same, ...begins, ...holds];
}
