// The map: points and links in WebGL 2, by hand. All it takes is two small programs and three buffers; a library
// would be larger than the rest of the page and would have to be kept alive. Rings and the lasso are on a 2-d canvas.

const SMOOTH = 20_000; // nodes
const FEWEST = 3000; // points that are drawn while the map moves, however slow the machine

const VERTEX = `#version 300 es
in vec2 place; in vec4 colour; uniform vec2 centre; uniform vec2 scale; uniform float size; out vec4 tint;
void main() { gl_Position = vec4((place - centre) * scale, 0.0, 1.0); gl_PointSize = size; tint = colour; }`;
const POINT = `#version 300 es
precision highp float; in vec4 tint; uniform float size; out vec4 shown;
void main() {
  float from = length(gl_PointCoord - 0.5) * size;
  float inside = clamp(size * 0.5 - from + 0.25, 0.0, 1.0) * tint.a;
  if (inside <= 0.0) discard;
  shown = vec4(tint.rgb * inside, inside);
}`;
const LINE = `#version 300 es
precision highp float; in vec4 tint; out vec4 shown;
void main() { shown = vec4(tint.rgb * tint.a, tint.a); }`;

export class PointMap {
  /**
   * @param {HTMLCanvasElement} canvas where points are drawn and the pointer is followed
   * @param {HTMLCanvasElement} overlay on top of it
   * @param {Float32Array} points x and y of each node
   * @param {{hover: Function, pick: Function, lasso: Function}} handlers called with a node (−1: none), a node, nodes
   */
  constructor(canvas, overlay, points, handlers) {
    Object.assign(this, { canvas, overlay, points, handlers });
    this.count = points.length / 2;
    this.tints = new Uint8Array(4 * this.count).fill(160);
    this.lines = { places: new Float32Array(0), tints: new Uint8Array(0) };
    this.rings = [];
    this.spokes = [];
    this.path = null;
    this.lassoing = false;
    this.pointers = new Map();
    this.grid = gridOf(points);
    this.order = shuffled(this.count); // so that no class lies on top, and that any first part is a fair sample
    this.last = null; // nodes of rare classes, which are drawn on top and larger
    this.onTop = 0; // number of these, the last of the order
    this.budget = this.count;
    // Points are smooth by themselves; links are, where it costs little.
    const antialias = this.count <= SMOOTH;
    this.gl = canvas.getContext("webgl2", { antialias, alpha: true, premultipliedAlpha: true });
    if (this.gl) this.prepare();
    this.resize();
    this.fit();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
  }

  prepare() {
    const { gl } = this;
    this.programs = { points: program(gl, VERTEX, POINT), lines: program(gl, VERTEX, LINE) };
    this.buffers = {
      places: gl.createBuffer(),
      tints: gl.createBuffer(),
      ends: gl.createBuffer(),
      shades: gl.createBuffer(),
    };
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.place();
    this.paint(this.tints);
    this.upload("ends", this.lines.places);
    this.upload("shades", this.lines.tints);
  }

  place() {
    const places = new Float32Array(this.points.length);
    this.order.forEach((node, i) => places.set(this.points.subarray(2 * node, 2 * node + 2), 2 * i));
    this.upload("places", places);
  }

  upload(name, values) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[name]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.DYNAMIC_DRAW);
  }

  /** Colour the points: red, green, blue and opacity of each, 0 to 255; `last` marks nodes drawn last, and larger. */
  paint(tints, last = this.last) {
    this.tints = tints;
    if (last !== this.last) {
      this.last = last;
      const shuffledOrder = shuffled(this.count);
      const top = (node) => Boolean(last?.[node]);
      const rare = shuffledOrder.filter(top);
      this.order = Uint32Array.from([...shuffledOrder.filter((node) => !top(node)), ...rare]);
      this.onTop = rare.length;
      if (this.gl) this.place();
    }
    if (this.gl) {
      const given = new Uint32Array(tints.buffer);
      this.upload(
        "tints",
        Uint32Array.from(this.order, (node) => given[node]),
      );
    }
    this.redraw();
  }

  /** Draw links: the places of both ends of each, and a colour of each end. */
  link(places, tints) {
    this.lines = { places, tints };
    if (this.gl) {
      this.upload("ends", places);
      this.upload("shades", tints);
    }
    this.redraw();
  }

  /** Put rings around nodes, `{node, colour, radius}`, and lines between some, `{from, to, colour}`, on top of all. */
  mark(rings, spokes) {
    this.rings = rings;
    this.spokes = spokes;
    this.redraw(false);
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    this.width = Math.max(box.width, 1);
    this.height = Math.max(box.height, 1);
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of [this.canvas, this.overlay]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(this.height * this.ratio);
    }
    if (this.fitted) this.fit();
    this.redraw();
  }

  /** Show all nodes. */
  fit() {
    const { low, high } = this.grid;
    const room = [high[0] - low[0], high[1] - low[1]];
    this.centre = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
    this.zoom = 0.92 * Math.min(this.width / (room[0] || 1), this.height / (room[1] || 1));
    this.whole = this.zoom;
    this.fitted = true;
    this.redraw();
  }

  /** Bring a node into view, if it is not. */
  show(node) {
    const [x, y] = this.toScreen(node);
    if (x > 20 && y > 20 && x < this.width - 20 && y < this.height - 20) return;
    this.centre = [this.points[2 * node], this.points[2 * node + 1]];
    this.fitted = false;
    this.redraw();
  }

  toScreen(node) {
    const x = this.width / 2 + (this.points[2 * node] - this.centre[0]) * this.zoom;
    const y = this.height / 2 - (this.points[2 * node + 1] - this.centre[1]) * this.zoom;
    return [x, y];
  }

  toPlane(x, y) {
    return [this.centre[0] + (x - this.width / 2) / this.zoom, this.centre[1] - (y - this.height / 2) / this.zoom];
  }

  get size() {
    const room = Math.sqrt((this.width * this.height) / Math.max(this.count, 1));
    return Math.max(2.2, Math.min(0.62 * room * Math.sqrt(this.zoom / this.whole), 11));
  }

  get rareSize() {
    return Math.max(1.6 * this.size, 5);
  }

  /** Draw with the next picture; `all` but where only rings, spokes or the lasso have changed. */
  redraw(all = true) {
    this.stale ||= all;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame((now) => {
      this.waiting = false;
      if (this.moving) this.adapt(now - this.before);
      this.before = now;
      if (this.stale && this.gl && !this.gl.isContextLost()) this.draw();
      this.stale = false;
      this.drawOver();
    });
  }

  /** Where pictures come too slowly, draw fewer points while the map moves; all of them once it rests. */
  adapt(milliseconds) {
    if (milliseconds > 45) this.budget = Math.max(FEWEST, Math.floor(this.budget / 2));
    else if (milliseconds < 22) this.budget = Math.min(this.count, Math.ceil(this.budget * 1.3));
  }

  moved() {
    this.fitted = false;
    this.before = this.moving ? this.before : NaN; // the time since the last movement is irrelevant
    this.moving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.moving = false;
      this.redraw();
    }, 200);
    this.redraw();
  }

  draw() {
    const { gl } = this;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const others = this.count - this.onTop;
    const shown = this.moving ? Math.min(others, this.budget) : others;
    this.run("lines", "ends", "shades", gl.LINES, this.size, 0, this.lines.places.length / 2);
    this.run("points", "places", "tints", gl.POINTS, this.size, 0, shown);
    this.run("points", "places", "tints", gl.POINTS, this.rareSize, others, this.onTop);
  }

  run(name, places, tints, kind, size, first, count) {
    if (!count) return;
    const { gl } = this;
    const { made, at } = this.programs[name];
    gl.useProgram(made);
    gl.uniform2f(at.centre, this.centre[0], this.centre[1]);
    gl.uniform2f(at.scale, (2 * this.zoom) / this.width, (2 * this.zoom) / this.height);
    gl.uniform1f(at.size, size * this.ratio);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[places]);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[tints]);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, 0, 0);
    gl.drawArrays(kind, first, count);
  }

  drawOver() {
    const pen = this.overlay.getContext("2d");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.lineWidth = 1.6;
    pen.globalAlpha = this.spokes.length > 200 ? 0.35 : 0.8;
    for (const { from, to, colour } of this.spokes) {
      pen.beginPath();
      pen.moveTo(...this.toScreen(from));
      pen.lineTo(...this.toScreen(to));
      pen.strokeStyle = colour;
      pen.stroke();
    }
    pen.globalAlpha = 1;
    for (const { node, colour, radius } of this.rings) {
      const [x, y] = this.toScreen(node);
      pen.beginPath();
      pen.arc(x, y, radius + this.size / 2, 0, 2 * Math.PI);
      pen.strokeStyle = colour;
      pen.lineWidth = 2;
      pen.stroke();
    }
    if (this.path?.length > 1) {
      pen.beginPath();
      this.path.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.fillStyle = "rgb(90 150 190 / 14%)";
      pen.fill();
      pen.strokeStyle = "rgb(90 150 190)";
      pen.lineWidth = 1.5;
      pen.stroke();
    }
  }

  /** The node under a place of the canvas, or −1. */
  at(x, y) {
    const { low, step, side, starts, order } = this.grid;
    const reach = Math.max(9, this.size) / this.zoom;
    const [px, py] = this.toPlane(x, y);
    const cell = (value, axis) => Math.max(0, Math.min(side - 1, Math.floor((value - low[axis]) / step[axis])));
    let best = -1;
    let nearest = reach * reach;
    for (let row = cell(py - reach, 1); row <= cell(py + reach, 1); row += 1) {
      const first = row * side + cell(px - reach, 0);
      const last = row * side + cell(px + reach, 0);
      for (let i = starts[first]; i < starts[last + 1]; i += 1) {
        const node = order[i];
        const far = (this.points[2 * node] - px) ** 2 + (this.points[2 * node + 1] - py) ** 2;
        if (far < nearest) [nearest, best] = [far, node];
      }
    }
    return best;
  }

  /** The nodes inside a closed line on the canvas. */
  inside(path) {
    const line = path.map(([x, y]) => this.toPlane(x, y));
    const found = [];
    for (let node = 0; node < this.count; node += 1) {
      const x = this.points[2 * node];
      const y = this.points[2 * node + 1];
      let within = false;
      for (let i = 0, j = line.length - 1; i < line.length; j = i++) {
        const [ax, ay] = line[i];
        const [bx, by] = line[j];
        if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
      }
      if (within) found.push(node);
    }
    return found;
  }

  zoomAt(x, y, factor) {
    const [px, py] = this.toPlane(x, y);
    this.zoom = Math.max(this.whole * 0.4, Math.min(this.zoom * factor, this.whole * 4000));
    this.centre = [px - (x - this.width / 2) / this.zoom, py + (y - this.height / 2) / this.zoom];
    this.moved();
  }

  pan(dx, dy) {
    this.centre = [this.centre[0] - dx / this.zoom, this.centre[1] + dy / this.zoom];
    this.moved();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.prepare();
      this.redraw();
    });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.handlers.hover(-1));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const pixels = event.deltaY * [1, 18, 400][event.deltaMode];
        this.zoomAt(event.offsetX, event.offsetY, Math.exp(-Math.max(-300, Math.min(pixels, 300)) / 400));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
      const zooms = { "+": 1.4, "=": 1.4, "-": 1 / 1.4 };
      if (event.key in moves) this.pan(...moves[event.key]);
      else if (event.key in zooms) this.zoomAt(this.width / 2, this.height / 2, zooms[event.key]);
      else if (event.key === "0") this.fit();
      else return;
      event.preventDefault();
    });
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.travelled = this.pointers.size > 1 ? Infinity : 0;
    this.path = (this.lassoing || event.shiftKey) && this.pointers.size === 1 ? [[event.offsetX, event.offsetY]] : null;
  }

  move(event) {
    const [x, y] = [event.offsetX, event.offsetY];
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.handlers.hover(this.at(x, y), x, y);
      return;
    }
    this.travelled += Math.hypot(x - before[0], y - before[1]);
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const apart = Math.hypot(before[0] - other[0], before[1] - other[1]) || 1;
      this.zoomAt((x + other[0]) / 2, (y + other[1]) / 2, Math.hypot(x - other[0], y - other[1]) / apart);
      this.pan((x - before[0]) / 2, (y - before[1]) / 2);
    } else if (this.path) {
      this.path.push([x, y]);
      this.redraw(false);
    } else if (this.travelled > 4) {
      this.pan(x - before[0], y - before[1]);
    }
    this.pointers.set(event.pointerId, [x, y]);
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    const path = this.path;
    this.path = null;
    this.redraw(false);
    if (path && path.length > 2 && this.travelled > 4) this.handlers.lasso(this.inside(thinned(path, 200)));
    else if (this.travelled <= 4) this.handlers.pick(this.at(event.offsetX, event.offsetY));
  }
}

/** The numbers below `count` in an order that is always the same and has no pattern (Fisher and Yates). */
function shuffled(count) {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  let state = 1;
  for (let i = count - 1; i > 0; i -= 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0; // Numerical Recipes' generator
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

function thinned(path, most) {
  const every = Math.ceil(path.length / most);
  return path.filter((_, i) => i % every === 0);
}

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, text] of [
    [gl.VERTEX_SHADER, vertex],
    [gl.FRAGMENT_SHADER, fragment],
  ]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.bindAttribLocation(made, 0, "place");
  gl.bindAttribLocation(made, 1, "colour");
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(made));
  const at = Object.fromEntries(["centre", "scale", "size"].map((name) => [name, gl.getUniformLocation(made, name)]));
  return { made, at };
}

/** Nodes sorted into the cells of a grid, about four to a cell: to find the one under the pointer among very many. */
function gridOf(points) {
  const count = points.length / 2;
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 1) {
    low[i & 1] = Math.min(low[i & 1], points[i]);
    high[i & 1] = Math.max(high[i & 1], points[i]);
  }
  const side = Math.max(1, Math.ceil(Math.sqrt(count) / 2));
  const step = [0, 1].map((axis) => (high[axis] - low[axis]) / side || 1);
  const cells = new Uint32Array(count);
  const starts = new Uint32Array(side * side + 1);
  for (let node = 0; node < count; node += 1) {
    const [column, row] = [0, 1].map((axis) =>
      Math.min(side - 1, Math.floor((points[2 * node + axis] - low[axis]) / step[axis])),
    );
    cells[node] = row * side + column;
    starts[cells[node] + 1] += 1;
  }
  for (let i = 1; i < starts.length; i += 1) starts[i] += starts[i - 1];
  const order = new Uint32Array(count);
  const next = starts.slice();
  for (let node = 0; node < count; node += 1) order[next[cells[node]]++] = node;
  return { low, high, step, side, starts, order };
}
