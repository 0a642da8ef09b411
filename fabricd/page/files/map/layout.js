// The torus laid flat: maps of two dimensions, one for each place in the others.

import { DIRECTIONS, linkOf } from "../torus.js";

const LETTERS_OF = "xyzw";
/** Room between two maps, in cells: stubs, numbers of rows and columns, and the title. */
const BESIDE = 1.9, ABOVE = 2.4;
/** How far from its cell's middle a link goes: half of the way to the neighbour, or into a corner. */
const HALF_WAY = 0.5, CORNER = 0.42;

/** Letters of a dimension, as people write them. */
export const letterOf = d => LETTERS_OF[d].toUpperCase();

/** All pairs of dimensions that a map can have: across, down. A ring alone is one row. */
export function pairsOf(torus) {
  const count = torus.dims.length;
  if (count === 1) return [[0, 1]];
  return torus.dims.flatMap((_, a) => torus.dims.map((_, b) => [a, b])).filter(([a, b]) => a !== b);
}

export const pairName = pair => pair.map(d => LETTERS_OF[d]).join("");

/** The pair that a text such as `xz` names, or null. */
export function pairOf(torus, text) {
  return pairsOf(torus).find(pair => pairName(pair) === text) || null;
}

/** Dimensions that are in no map. */
export const othersOf = (torus, pair) => torus.dims.map((_, d) => d).filter(d => !pair.includes(d));

/** What a slice is called: `z1`, `z1,w0`; nothing if all are shown. */
export function sliceName(torus, pair, fixed) {
  return othersOf(torus, pair).filter(d => fixed[d] !== null).map(d => `${LETTERS_OF[d]}${fixed[d]}`).join();
}

/** The places that a text such as `z1,w0` names, by dimension; null if it makes no sense. */
export function sliceOf(torus, pair, text) {
  const fixed = [null, null, null, null];
  for (const part of text ? text.split(",") : []) {
    const found = /^([xyzw])(\d{1,6})$/.exec(part), d = found ? LETTERS_OF.indexOf(found[1]) : -1;
    if (!othersOf(torus, pair).includes(d) || fixed[d] !== null || Number(found[2]) >= torus.size[d]) return null;
    fixed[d] = Number(found[2]);
  }
  return fixed;
}

/** What is shown, in words. */
export function mapWords(torus, pair, fixed) {
  const across = torus.dims.length === 1 ? "X" : pair.map(letterOf).join("×");
  const slices = othersOf(torus, pair).map(d => (fixed[d] === null ? `all ${letterOf(d)}` : `${letterOf(d)}=${fixed[d]}`));
  return [`map ${across}`, ...slices].join(", ");
}

/** How many maps stand beside each other, so that they are as large as can be: the first of the others goes across if possible. */
function grid(counts, wide, tall, aspect) {
  const fits = (columns, rows) => Math.min(aspect / (columns * wide), 1 / (rows * tall));
  const [c, d = 1] = counts.length ? counts : [1];
  const ways = counts.length > 1 && d > 1 && c > 1 ? [[c, d], [d, c]] : Array.from({ length: c * d }, (_, i) => [i + 1, Math.ceil((c * d) / (i + 1))]);
  return ways.reduce((best, way) => (fits(...way) > fits(...best) + 1e-9 ? way : best))[0];
}

/** Which way a link of another dimension goes, from the middle of its cell: a corner for each. */
export function cornerOf(order, sign) {
  return order === 0 ? [CORNER * sign, -CORNER * sign] : [CORNER * sign, CORNER * sign];
}

/**
 * Places on the map, centred, y downwards: those of nodes, and both ends of every half link, as `places` and `halves` have
 * them in space. Nodes of other slices are nowhere (NaN), and have no links here. `aspect` is that of the picture.
 */
export function mapOf(torus, pair, fixed, aspect) {
  const [a, b] = pair, others = othersOf(torus, pair), free = others.filter(d => fixed[d] === null);
  const wide = torus.size[a] + BESIDE, tall = torus.size[b] + ABOVE, counts = free.map(d => torus.size[d]);
  const columns = grid(counts, wide, tall, aspect), turned = counts.length > 1 && counts[0] > 1 && counts[1] > 1 && columns !== counts[0];
  const all = counts.reduce((product, size) => product * size, 1), lines = Math.ceil(all / columns);
  const left = -(columns * wide) / 2, top = -(lines * tall) / 2;
  const at = new Float32Array(torus.nodes * 3).fill(NaN), maps = [], links = [], ends = [];
  const corner = of => {
    const [i, j] = free.map(d => of[d]), number = !free.length ? 0 : free.length === 1 ? i : turned ? i * counts[1] + j : j * counts[0] + i;
    return { number, x: left + (number % columns) * wide + (BESIDE + 1) / 2, y: top + Math.floor(number / columns) * tall + ABOVE - 0.1 };
  };
  for (let node = 0; node < torus.nodes; node++) {
    const of = torus.coords(node);
    if (others.some(d => fixed[d] !== null && fixed[d] !== of[d])) continue;
    const { number, x, y } = corner(of), nx = x + of[a], ny = y + (of[b] || 0);
    at.set([nx, ny, 0], 3 * node);
    maps[number] ||= { x, y, title: others.map(d => `${letterOf(d)}=${of[d]}`).join(" ") };
    for (let direction = 0; direction < DIRECTIONS.length; direction++) {
      if (torus.neighbour(node, direction) < 0) continue;
      const d = direction & 3, sign = direction & 4 ? -1 : 1;
      const [dx, dy] = d === a ? [HALF_WAY * sign, 0] : d === b ? [0, HALF_WAY * sign] : cornerOf(others.indexOf(d), sign);
      links.push(linkOf(node, direction));
      ends.push(nx, ny, 0, nx + dx, ny + dy, 0);
    }
  }
  return { at, half: { links: Int32Array.from(links), ends: Float32Array.from(ends) }, maps: maps.filter(Boolean), wide: columns * wide, tall: lines * tall };
}
