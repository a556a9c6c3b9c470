// The data of the page: one description (meta.json), arrays as little-endian numbers in parts, and ids as JSON.
// `dssl explore` serves these files from memory, `dssl explore --export` writes them; the page is the same.

const TYPES = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array, uint8: Uint8Array };

async function fetched(path) {
  const answer = await fetch(`data/${path}`);
  if (!answer.ok) throw new Error(`${path} was answered with ${answer.status}`);
  return answer;
}

async function array({ type, parts }) {
  const pieces = await Promise.all(
    parts.map(async (part) => new Uint8Array(await (await fetched(part)).arrayBuffer())),
  );
  if (pieces.length === 1) return new TYPES[type](pieces[0].buffer);
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return new TYPES[type](all.buffer);
}

export class Data {
  /** Read the description and the places of the nodes: enough for a map. */
  static async open() {
    const data = new Data();
    data.meta = await (await fetched("meta.json")).json();
    data.nodes = data.meta.nodes;
    data.factors = data.meta.factors;
    data.columns = data.meta.columns.map((column) => ({ ...column, values: null }));
    data.points = await array(data.meta.arrays.points);
    return data;
  }

  /** Read the rest: ids, links, posteriors and columns. */
  async complete() {
    const { arrays } = this.meta;
    const [ids, indptr, indices, nodeQ, linkQ] = await Promise.all([
      Promise.all(this.meta.ids.map(async (part) => (await fetched(part)).json())),
      array(arrays.indptr),
      array(arrays.indices),
      this.factors ? array(arrays.node_q) : null,
      this.factors ? array(arrays.link_q) : null,
      ...this.columns.map(async (column) => (column.values = await array(arrays[column.array]))),
    ]);
    this.ids = ids.length === 1 ? ids[0] : [].concat(...ids);
    this.lowered = this.ids.map((id) => id.toLowerCase());
    Object.assign(this, { indptr, indices, nodeQ, linkQ });
    this.incoming = null;
    if (this.meta.directed) this.incoming = reversed(indptr, indices);
  }

  /** The column with a role: label, factor or degree. */
  column(role) {
    return this.columns.find((column) => column.role === role) ?? null;
  }

  /** The nodes with the most similar vectors, best first, with their cosines. */
  async nearest(node) {
    const { per, top } = this.meta.nearest;
    if (!top) return [];
    const block = Math.floor(node / per);
    const buffer = await (await fetched(`nearest/${block}.bin`)).arrayBuffer();
    const rows = buffer.byteLength / (8 * top);
    const places = new Int32Array(buffer, 0, rows * top);
    const cosines = new Float32Array(buffer, 4 * rows * top, rows * top);
    const row = (node - block * per) * top;
    return Array.from({ length: top }, (_, i) => ({ node: places[row + i], cosine: cosines[row + i] }));
  }
}

/** Links by their end instead of their start; `arc` is the place of each among those by start. */
export function reversed(indptr, indices) {
  const starts = new Uint32Array(indptr.length);
  for (const target of indices) starts[target + 1] += 1;
  for (let i = 1; i < starts.length; i += 1) starts[i] += starts[i - 1];
  const next = starts.slice();
  const sources = new Uint32Array(indices.length);
  const arc = new Uint32Array(indices.length);
  for (let source = 0; source + 1 < indptr.length; source += 1) {
    for (let at = indptr[source]; at < indptr[source + 1]; at += 1) {
      const place = next[indices[at]]++;
      sources[place] = source;
      arc[place] = at;
    }
  }
  return { indptr: starts, indices: sources, arc };
}
