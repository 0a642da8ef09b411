// Where nodes are: numbers, coordinates, places in space.

export const DIRECTIONS = ["+X", "+Y", "+Z", "+W", "-X", "-Y", "-Z", "-W"];

/** The number of a link: those of node 0 first, by direction. Daemons and reports count alike. */
export const linkOf = (node, direction) => node * DIRECTIONS.length + direction;

/** The node that a link begins at, and its direction. */
export const nodeOf = link => Math.floor(link / DIRECTIONS.length);
export const directionOf = link => link % DIRECTIONS.length;

/** A torus or mesh; of the coordinates of nodes 0, 1, 2, … the first changes fastest. */
export class Torus {
  constructor(dims, isTorus) {
    this.dims = dims;
    this.isTorus = isTorus;
    this.nodes = dims.reduce((product, size) => product * size, 1);
    this.strides = dims.map((_, d) => dims.slice(0, d).reduce((product, size) => product * size, 1));
    this.size = [0, 1, 2, 3].map(d => dims[d] || 1);
  }

  coords(node) {
    return this.dims.map((size, d) => Math.floor(node / this.strides[d]) % size);
  }

  show(node) {
    return this.coords(node).join(",");
  }

  /** The node that coordinates or a number name, or -1. */
  nodeAt(text) {
    const parts = String(text).split(",").map(part => part.trim());
    if (!parts.every(part => /^\d{1,6}$/.test(part))) return -1;
    if (parts.length === 1 && this.dims.length > 1) return Number(parts[0]) < this.nodes ? Number(parts[0]) : -1;
    if (parts.length !== this.dims.length || parts.some((part, d) => Number(part) >= this.dims[d])) return -1;
    return parts.reduce((node, part, d) => node + Number(part) * this.strides[d], 0);
  }

  /** The node at the far end of a link, or -1. */
  neighbour(node, direction) {
    const d = direction & 3;
    if (d >= this.dims.length || this.dims[d] < 2) return -1;
    const size = this.dims[d], at = Math.floor(node / this.strides[d]) % size;
    const step = direction & 4 ? -1 : 1;
    let to = at + step;
    if (to < 0 || to >= size) {
      if (!this.isTorus) return -1;
      to = (to + size) % size;
    }
    return node + (to - at) * this.strides[d];
  }

  /** Whether a link leads around, from one end of a ring to the other. */
  wraps(node, direction) {
    const d = direction & 3, size = this.dims[d], at = Math.floor(node / this.strides[d]) % size;
    return direction & 4 ? at === 0 : at === size - 1;
  }

  /** The same cable, seen from its other end. */
  opposite(link) {
    return linkOf(this.neighbour(nodeOf(link), directionOf(link)), directionOf(link) ^ 4);
  }
}

/**
 * Places in space, centred: x, y, z of each node, and how long a link of each dimension is drawn.
 * A 4th dimension is a row of blocks (unfolded), or a shift within each place (nested).
 */
export function places(torus, fourth) {
  const [a, b, c, w] = torus.size;
  const nested = fourth === "nested";
  const gap = nested ? 1 : a + 1.4;
  const inner = nested ? 0.26 : 0;
  const at = new Float32Array(torus.nodes * 3);
  const wide = nested ? a - 1 : (w - 1) * gap + a - 1;
  for (let node = 0; node < torus.nodes; node++) {
    const [x = 0, y = 0, z = 0, k = 0] = torus.coords(node);
    const shift = inner * (k - (w - 1) / 2);
    at[3 * node] = x + (nested ? shift : k * gap) - wide / 2;
    at[3 * node + 1] = -(y - (b - 1) / 2) + shift;
    at[3 * node + 2] = z - (c - 1) / 2 + shift;
  }
  const radius = Math.max(1, Math.hypot(wide / 2, (b - 1) / 2, (c - 1) / 2) + 0.4);
  return { at, radius, tall: b, wide: wide + 1, deep: c };
}

/**
 * Every link from its node to half of its way, so that both directions of a cable are seen: link, and six coordinates each.
 * What leads around, or from block to block, is a stub.
 */
export function halves(torus, fourth, at) {
  const links = [], ends = [];
  const stub = 0.34;
  for (let node = 0; node < torus.nodes; node++) {
    for (let direction = 0; direction < DIRECTIONS.length; direction++) {
      const to = torus.neighbour(node, direction);
      if (to < 0) continue;
      const from = 3 * node, far = 3 * to, d = direction & 3;
      let dx, dy, dz;
      if (torus.wraps(node, direction) || (d === 3 && fourth !== "nested")) {
        const sign = (direction & 4 ? -1 : 1) * (d === 1 ? -1 : 1);
        // A stub of the 4th dimension goes aside, so that it is not one of the others.
        [dx, dy, dz] = [[stub, 0, 0], [0, stub, 0], [0, 0, stub], [stub * 0.7, stub * 0.7, stub * 0.7]][d].map(v => v * sign);
        if (torus.size[d] === 2 && d < 3) [dx, dy, dz] = [dx * 0.8, dy * 0.8, dz * 0.8];
      } else {
        [dx, dy, dz] = [0, 1, 2].map(i => (at[far + i] - at[from + i]) / 2);
      }
      links.push(linkOf(node, direction));
      ends.push(at[from], at[from + 1], at[from + 2], at[from] + dx, at[from + 1] + dy, at[from + 2] + dz);
    }
  }
  return { links: Int32Array.from(links), ends: Float32Array.from(ends) };
}
