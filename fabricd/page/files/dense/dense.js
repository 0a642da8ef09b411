// Links and nodes of a large network, which a canvas draws too slowly: the busiest on top, seen from afar in groups.

import { DIRECTIONS, directionOf, nodeOf } from "../torus.js";
import { BUCKETS, HIDDEN } from "../colours.js";
import { Raster, pixel } from "./raster.js";

/** Nodes that are nearer to each other, in pixels, are drawn in groups. */
const APART = 16;
/** Lines that are wider, in pixels, are few enough in sight for the canvas. */
const RASTER_LINE = 3;

export class Dense {
  constructor(view) {
    this.view = view;
    this.raster = new Raster();
    this.groups = new Map();
    this.group = null;
    this.colours = new Map();
  }

  /** Nodes have other places. */
  folded() {
    this.groups.clear();
    this.group = null;
    this.key = this.painted = null;
    this.paints = new Int32Array(this.view.torus.nodes);
  }

  /** So many nodes in a row are drawn as one. */
  factor() {
    const { unit, ratio, torus } = this.view;
    let factor = 1;
    while (unit * factor < APART * ratio && factor < Math.max(...torus.dims.slice(0, 3))) factor *= 2;
    return factor;
  }

  pixel(colour) {
    if (!this.colours.has(colour)) this.colours.set(colour, pixel(colour));
    return this.colours.get(colour);
  }

  /**
   * Links of a direction that begin in a cube of `factor` nodes each way: for each link its group, and for each group a line.
   * The 4th dimension is not in a cube: its blocks stand side by side.
   */
  grouped(factor) {
    if (factor === 1) return null;
    if (this.groups.has(factor)) return this.groups.get(factor);
    const { torus, half, at } = this.view, cells = torus.size.map((size, d) => (d < 3 ? Math.ceil(size / factor) : size));
    const cellOf = new Int32Array(torus.nodes);
    for (let node = 0; node < torus.nodes; node++) {
      const [x = 0, y = 0, z = 0, w = 0] = torus.coords(node).map((v, d) => (d < 3 ? Math.floor(v / factor) : v));
      cellOf[node] = x + cells[0] * (y + cells[1] * (z + cells[2] * w));
    }
    const count = cells.reduce((product, size) => product * size, 1), places = new Float32Array(count * 3), sizes = new Uint32Array(count);
    for (let node = 0; node < torus.nodes; node++) {
      sizes[cellOf[node]]++;
      for (let i = 0; i < 3; i++) places[3 * cellOf[node] + i] += at[3 * node + i];
    }
    for (let i = 0; i < places.length; i++) places[i] /= sizes[Math.floor(i / 3)];
    const slots = new Map(), of = new Int32Array(half.links.length), ends = [];
    for (let i = 0; i < half.links.length; i++) {
      const link = half.links[i], cell = cellOf[nodeOf(link)], slot = cell * DIRECTIONS.length + directionOf(link);
      if (!slots.has(slot)) {
        // As long as the group is wide; a stub, which the first may be, is short.
        const along = [0, 1, 2].map(k => half.ends[6 * i + 3 + k] - half.ends[6 * i + k]), long = Math.hypot(...along) || 1, d = directionOf(link) & 3;
        const reach = d < 3 ? factor / 2 : long;
        slots.set(slot, slots.size);
        for (let k = 0; k < 3; k++) ends.push(places[3 * cell + k]);
        for (let k = 0; k < 3; k++) ends.push(places[3 * cell + k] + along[k] / long * reach);
      }
      of[i] = slots.get(slot);
    }
    const found = { factor, of, count: slots.size, ends: Float32Array.from(ends), screen: new Float32Array(slots.size * 4), top: new Int32Array(slots.size) };
    this.groups.set(factor, found);
    return found;
  }

  /** Whether lines are thin enough: wide ones are few in sight. Cells of a map and differences are the canvas's. */
  fits() {
    const { view } = this;
    return !view.isMap && view.measure !== "difference" && view.thin() <= RASTER_LINE * view.ratio;
  }

  /** The groups that are drawn, if any are. */
  shown() {
    return this.group && this.fits() ? this.group : null;
  }

  /** What is drawn, the busiest last: indices of links or groups by bucket. It is found again when figures have changed. */
  sort() {
    const { view, group } = this, { store, half, gauge, buckets } = view;
    const key = [store.changes, view.measure, gauge.scale, view.least, view.hideIdle, group ? group.factor : 1].join();
    if (this.key === key && this.store === store) return;
    [this.key, this.store] = [key, store];
    view.sortLinks();
    let kept = buckets;
    if (group) {
      const { of, top } = group, figures = view.measure === "total" ? store.flits : store.rate;
      kept = new Uint8Array(group.count).fill(HIDDEN);
      top.fill(-1);
      for (let i = 0; i < buckets.length; i++) {
        const g = of[i], b = buckets[i];
        // What is down has the last bucket, so it comes before what is busy.
        const isMore = top[g] < 0 || b > kept[g] || (b === kept[g] && figures[half.links[i]] > figures[half.links[top[g]]]);
        if (b === HIDDEN || !isMore) continue;
        kept[g] = b;
        top[g] = i;
      }
    }
    this.starts = new Uint32Array(BUCKETS + 3);
    for (const b of kept) if (b !== HIDDEN) this.starts[b + 1]++;
    for (let b = 0; b < BUCKETS + 2; b++) this.starts[b + 1] += this.starts[b];
    const at = this.starts.slice();
    this.order = new Int32Array(at[BUCKETS + 2]);
    for (let i = 0; i < kept.length; i++) if (kept[i] !== HIDDEN) this.order[at[kept[i]]++] = i;
  }

  draw() {
    const { view, raster } = this, { pen, canvas } = view, group = this.group = this.grouped(this.factor());
    this.sort();
    raster.begin(pen, canvas.width, canvas.height, this.pixel(view.colours.ground));
    if (group) for (let i = 0; i < 2 * group.count; i++) view.put(group.ends[3 * i], group.ends[3 * i + 1], group.ends[3 * i + 2], group.screen, 2 * i);
    // From afar nodes lie so close that they would hide links.
    if (group) this.nodes();
    const screen = group ? group.screen : view.screen, widen = group ? Math.max(1, view.unit * group.factor * 0.055 / view.thin()) : 1;
    for (let b = 0; b <= BUCKETS; b++) {
      const [colour, thick] = view.lineOf(b), paint = this.pixel(colour);
      for (let k = this.starts[b]; k < this.starts[b + 1]; k++) {
        const i = 4 * this.order[k];
        raster.line(screen[i], screen[i + 1], screen[i + 2], screen[i + 3], thick * widen, paint);
      }
    }
    if (!group) this.nodes();
    raster.end(pen);
    this.broken(screen);
  }

  /** Links that are down, which are few. */
  broken(screen) {
    const { pen } = this.view, b = BUCKETS + 1;
    [pen.strokeStyle, pen.lineWidth] = this.view.lineOf(b);
    this.view.dash();
    pen.beginPath();
    for (let k = this.starts[b]; k < this.starts[b + 1]; k++) {
      const i = 4 * this.order[k];
      pen.moveTo(screen[i], screen[i + 1]);
      pen.lineTo(screen[i + 2], screen[i + 3]);
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  nodes() {
    const { view, raster, paints } = this, { nodeScreen } = view, size = view.nodeSize();
    this.paint();
    for (let n = 0; n < paints.length; n++) if (paints[n]) raster.square(nodeScreen[3 * n], nodeScreen[3 * n + 1], size, paints[n]);
  }

  /** Finds the colour of each node, 0 if it is not drawn. */
  paint() {
    const { view, paints } = this, { store } = view, key = [store.changes, view.paint, view.theme, view.hideIdle].join();
    if (this.painted === key && this.jobOf === view.jobOf && this.of === store) return;
    [this.painted, this.jobOf, this.of] = [key, view.jobOf, store];
    for (let n = 0; n < paints.length; n++) paints[n] = view.hideIdle && view.isIdle(n) ? 0 : this.pixel(view.nodeColour(n));
  }
}
