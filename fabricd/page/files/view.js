// The picture: a camera around the torus, drawn on a canvas.

import { halves, linkOf, nodeOf, places, DIRECTIONS, directionOf } from "./torus.js";
import { diverging, scale, grounds, named, BUCKETS, HIDDEN } from "./colours.js";
import { Dense } from "./dense/dense.js";
import { largest } from "./store.js";
import { mapOf } from "./map/layout.js";
import { FOOT, mapCompass, mapTitles } from "./map/drawn.js";

/** From so many nodes on they are drawn as squares, without order. */
const MANY = 600;
const PULSE = 700;
/** The bucket of links that do not work; above it are those that carry less than the reference. */
const DOWN = BUCKETS + 1;
/** Kinds of faults that leave a link or node up, and the letter of each. */
const LETTERS = { corrupt: "c", drop: "d", delay: "t", jitter: "t", rate: "r" };
const FOV = 0.42;

/** PEs of a node in a few characters: one, a row of them, or the first and how many more. */
function label(pes, jobs) {
  if (jobs && jobs.length > 1) return `${jobs.length} jobs`;
  if (pes.length === 1) return `${pes[0]}`;
  const isRow = pes.every((pe, i) => pe === pes[0] + i);
  return isRow ? `${pes[0]}–${pes.at(-1)}` : `${pes[0]} +${pes.length - 1}`;
}

export class View {
  constructor(canvas, store, gauge) {
    this.canvas = canvas;
    this.gauge = gauge;
    this.pen = canvas.getContext("2d", { alpha: false });
    this.store = store;
    this.torus = store.torus;
    this.yaw = -0.46;
    this.pitch = 0.36;
    this.zoom = 1;
    this.pan = [0, 0];
    this.measure = "now";
    this.paint = "jobs";
    this.fourth = "unfolded";
    // In space, or laid flat: maps of a pair of dimensions, of all places in the others or of those that are fixed.
    this.layout = "torus";
    this.pair = [0, 1];
    this.fixed = [null, null, null, null];
    this.laid = () => {};
    this.showTrees = false;
    // Links below this part of the scale are not drawn.
    this.least = 0;
    this.hideIdle = false;
    this.owners = null;
    this.chosen = null;
    this.hover = null;
    this.dirty = true;
    this.frames = 0;
    this.spent = 0;
    // Called when something of the view has changed that an address may tell.
    this.moved = () => {};
    this.marked = [];
    // What others draw on top.
    this.overlays = [];
    this.dead = new Set();
    // What links are compared with, if anything is held.
    this.comparison = null;
    this.dense = new Dense(this);
    this.setTheme("dark");
    this.fold("unfolded");
  }

  setTheme(theme) {
    this.theme = theme;
    this.colours = grounds(theme);
    this.scale = scale(theme);
    this.diverging = diverging(theme);
    this.dirty = true;
  }

  fold(fourth) {
    this.fourth = fourth;
    if (this.layout === "map") {
      const { width, height } = this.canvas;
      this.map = mapOf(this.torus, this.pair, this.fixed, width / Math.max(1, height - FOOT * (this.ratio || 1)));
      this.at = this.map.at;
      this.half = this.map.half;
      this.radius = 1;
    } else {
      const { at, radius, tall, wide, deep } = places(this.torus, fourth);
      this.at = at;
      this.radius = radius;
      this.extent = { tall, wide, deep };
      this.half = halves(this.torus, fourth, at);
    }
    this.screen = new Float32Array(this.half.links.length * 4);
    this.nodeScreen = new Float32Array(this.torus.nodes * 3);
    this.buckets = new Uint8Array(this.half.links.length);
    this.dense.folded();
    this.dirty = true;
  }

  get isMap() {
    return this.layout === "map";
  }

  /** Another layout, or a map of another pair, with all slices unless some are fixed. */
  lay(layout, pair = this.pair, fixed = [null, null, null, null]) {
    this.layout = layout;
    this.pair = pair;
    this.fixed = fixed;
    this.whole();
    this.fold(this.fourth);
    this.laid();
  }

  /** One slice of a dimension, or all (null). */
  slice(d, place) {
    const fixed = this.fixed.slice();
    fixed[d] = place;
    this.lay("map", this.pair, fixed);
  }

  /** Shows the slice that a node is in. */
  reveal(node) {
    if (!this.isMap || !Number.isNaN(this.at[3 * node])) return;
    const at = this.torus.coords(node);
    this.lay("map", this.pair, this.fixed.map((place, d) => (place === null ? null : at[d])));
  }

  resize() {
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const wide = Math.round(this.canvas.clientWidth * ratio), high = Math.round(this.canvas.clientHeight * ratio);
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    this.ratio = ratio;
    if (this.isMap) this.fold(this.fourth);
    this.dirty = true;
  }

  whole() {
    this.zoom = 1;
    this.pan = [0, 0];
    this.dirty = true;
  }

  /** Everything is turned, then seen from far enough that it fits. */
  project() {
    if (this.isMap) return this.flat();
    const { canvas, at, half, screen, nodeScreen } = this;
    const cy = Math.cos(this.yaw), sy = Math.sin(this.yaw), cp = Math.cos(this.pitch), sp = Math.sin(this.pitch);
    const far = this.radius / Math.sin(FOV / 2);
    // What is wide on a wide screen may be nearer than a ball around it.
    const { wide, tall, deep } = this.extent;
    const seenWide = Math.abs(cy) * wide + Math.abs(sy) * deep, seenHigh = Math.abs(cp) * tall + Math.abs(sp) * (Math.abs(sy) * wide + Math.abs(cy) * deep);
    const fit = Math.min(canvas.width / (seenWide + 1), canvas.height / (seenHigh + 1)) * 0.93;
    const size = fit * far * this.zoom;
    const ox = canvas.width / 2 + this.pan[0] * this.ratio, oy = canvas.height / 2 + this.pan[1] * this.ratio;
    this.unit = size / far;
    const put = (x, y, z, out, o) => {
      const x1 = cy * x + sy * z, z1 = -sy * x + cy * z, y2 = cp * y - sp * z1, z2 = sp * y + cp * z1;
      const near = size / Math.max(far * 0.05, far + z2);
      out[o] = ox + x1 * near;
      out[o + 1] = oy - y2 * near;
      return z2;
    };
    this.put = put;
    for (let n = 0; n < this.torus.nodes; n++) {
      nodeScreen[3 * n + 2] = put(at[3 * n], at[3 * n + 1], at[3 * n + 2], nodeScreen, 3 * n);
    }
    const { ends, links } = half;
    for (let i = 0, e = 0; i < links.length; i++, e += 6) {
      // It begins at its node.
      const node = 3 * nodeOf(links[i]);
      screen[4 * i] = nodeScreen[node];
      screen[4 * i + 1] = nodeScreen[node + 1];
      put(ends[e + 3], ends[e + 4], ends[e + 5], screen, 4 * i + 2);
    }
  }

  /** A map fits above the legend. */
  flat() {
    const { canvas, at, half, screen, nodeScreen, ratio, map } = this, high = Math.max(1, canvas.height - FOOT * ratio);
    this.unit = Math.min(canvas.width / map.wide, high / map.tall) * 0.97 * this.zoom;
    const [ox, oy] = [canvas.width / 2 + this.pan[0] * ratio, high / 2 + this.pan[1] * ratio];
    this.origin = [ox, oy];
    for (let n = 0; n < 3 * this.torus.nodes; n += 3) {
      nodeScreen[n] = ox + at[n] * this.unit;
      nodeScreen[n + 1] = oy + at[n + 1] * this.unit;
      nodeScreen[n + 2] = 0;
    }
    for (let i = 0, e = 0; i < half.links.length; i++, e += 6) {
      screen[4 * i] = ox + half.ends[e] * this.unit;
      screen[4 * i + 1] = oy + half.ends[e + 1] * this.unit;
      screen[4 * i + 2] = ox + half.ends[e + 3] * this.unit;
      screen[4 * i + 3] = oy + half.ends[e + 4] * this.unit;
    }
  }

  /** 0: idle, 1 to BUCKETS: from little to much, as much above DOWN: from little less to much less. */
  bucket(value, most) {
    const size = Math.abs(value);
    if (!(size > 0 && most > 0)) return 0;
    return (value < 0 ? DOWN + 1 : 1) + Math.min(BUCKETS - 1, Math.floor(BUCKETS * this.gauge.part(size, most)));
  }

  /** The bucket in which a link is drawn. */
  bucketOf(link, most) {
    if (this.store.down.size && this.store.down.has(link)) return DOWN;
    const value = this.value(link);
    return this.isHidden(value, most) ? HIDDEN : this.bucket(value, most);
  }

  /** The colour of a bucket. */
  shade(bucket) {
    if (bucket === 0) return this.colours.idle;
    if (bucket === DOWN) return this.colours.bad;
    if (bucket > DOWN) return this.diverging.less[bucket - DOWN - 1];
    return (this.measure === "difference" ? this.diverging.more : this.scale)[bucket - 1];
  }

  /** How wide links of a bucket are drawn, among others. */
  thick(bucket) {
    if (bucket === 0) return 0.5;
    return bucket === DOWN ? 1.2 : 0.8 + 0.9 * ((bucket > DOWN ? bucket - DOWN : bucket) / BUCKETS);
  }

  /** The largest of what links show. */
  most() {
    return this.measure === "difference" ? this.comparison.most : this.store.most(this.measure);
  }

  /** Links that show most, first. */
  hottest(count) {
    return this.measure === "difference" ? largest(this.comparison.differences.map(Math.abs), count) : this.store.hottest(this.measure, count);
  }

  /** What a link shows, in words. */
  said(link) {
    const value = this.value(link);
    return this.measure === "difference" ? this.gauge.signed(value) : this.gauge.text(value, this.measure === "total");
  }

  value(link) {
    if (this.measure === "difference") return this.comparison.of(link);
    return this.measure === "total" ? this.store.flits[link] : this.store.rate[link];
  }

  /** The colour a link has now. */
  colourOf(link) {
    return this.shade(this.store.down.has(link) ? DOWN : this.bucket(this.value(link), this.most()));
  }

  nodeColour(node) {
    if (this.paint === "barriers") return this.store.barriers[node] > 0 ? this.phaseColour(this.store.phases[node]) : this.colours.node;
    if (this.dead && this.dead.has(node)) return this.colours.bad;
    if (this.owners && this.paint === "hosts") return named(this.owners[node]);
    if (this.paint === "hosts") return named(0);
    const member = this.setOf && this.setOf.get(node), job = this.jobOf && this.jobOf.get(node);
    if (member && member.transit) return this.colours.elsewhere;
    return job === undefined ? this.colours.node : named(job);
  }

  /** Colours of barriers by how many phases they took, as far apart as they are few. */
  phaseColours() {
    const { store } = this;
    if (this.phased && this.phased.of === store && this.phased.changes === store.changes && this.phased.theme === this.theme) return this.phased.colours;
    const found = new Set();
    store.barriers.forEach((count, node) => { if (count > 0) found.add(store.phases[node]); });
    const list = [...found].sort((a, b) => a - b), colours = new Map();
    list.forEach((phases, i) => colours.set(phases, this.scale[Math.round((0.4 + 0.6 * i / Math.max(1, list.length - 1)) * (BUCKETS - 1))]));
    this.phased = { of: store, changes: store.changes, theme: this.theme, colours };
    return colours;
  }

  phaseColour(phases) {
    return this.phaseColours().get(phases) || this.colours.node;
  }

  /** Which job has PEs on which node, by its place in the list, and which node belongs to which job's set. */
  placed() {
    this.jobOf = new Map();
    this.jobsOf = new Map();
    this.peOf = new Map();
    this.store.jobs.forEach(job => {
      const nodes = this.store.placements.get(job.job) || [];
      nodes.forEach((node, pe) => {
        if (!this.jobOf.has(node)) this.jobOf.set(node, job.job);
        if (!this.jobsOf.has(node)) this.jobsOf.set(node, []);
        if (!this.jobsOf.get(node).includes(job.job)) this.jobsOf.get(node).push(job.job);
        if (!this.peOf.has(node)) this.peOf.set(node, []);
        this.peOf.get(node).push(pe);
      });
    });
    this.setOf = new Map();
    for (const [job, { nodes, transit }] of this.store.sets) {
      for (const node of nodes) this.setOf.set(node, { job, transit: false });
      for (const node of transit) this.setOf.set(node, { job, transit: true });
    }
    this.dirty = true;
  }

  draw(now) {
    const begun = performance.now(), { pen, canvas, colours } = this;
    const camera = [this.yaw, this.pitch, this.zoom, ...this.pan, canvas.width, canvas.height].join();
    // Wide lines take the browser several times as long as hairlines. Where there are many they wait until the picture
    // stands still, and it turns smoothly.
    this.project();
    this.turning = camera !== this.camera && this.torus.nodes > MANY && !this.dense.fits();
    this.camera = camera;
    this.dirty = this.turning;
    if (this.comparison) this.comparison.renew();
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    this.readFaults();
    const isDense = this.torus.nodes > MANY && this.dense.fits();
    if (isDense) this.dense.draw();
    else this.drawLinks();
    if (this.showTrees) this.drawTrees();
    if (!isDense) this.drawNodes();
    else if (this.setOf) this.drawMembers();
    if (this.isMap) mapTitles(this);
    if (this.isMap) mapCompass(this);
    else this.drawAxes();
    this.drawPulses(now);
    this.drawChosen();
    this.drawMarks();
    for (const overlay of this.overlays) overlay();
    this.frames++;
    this.spent = this.spent * 0.9 + (performance.now() - begun) * 0.1;
    canvas.dataset.frames = this.frames;
    canvas.dataset.ms = this.spent.toFixed(2);
  }

  /** Finds the bucket of each link. */
  sortLinks() {
    const { half, buckets } = this, most = this.most();
    for (let i = 0; i < half.links.length; i++) buckets[i] = this.bucketOf(half.links[i], most);
  }

  /** Pixels that a line with hardly any load is wide. */
  thin() {
    return Math.max(0.6, Math.min(5 * this.ratio, this.unit * (this.isMap ? 0.085 : 0.055)));
  }

  /** Colour and width of the lines of a bucket. */
  lineOf(b) {
    return [this.shade(b), Math.max(b ? 0 : 1, this.thin() * this.thick(b))];
  }

  drawLinks() {
    const { pen, half, screen, buckets } = this, count = half.links.length, used = new Uint32Array(DOWN + BUCKETS + 1);
    this.sortLinks();
    for (let i = 0; i < count; i++) if (buckets[i] !== HIDDEN) used[buckets[i]]++;
    pen.lineCap = this.torus.nodes > MANY ? "butt" : "round";
    for (let b = 0; b < used.length; b++) {
      if (!used[b]) continue;
      pen.beginPath();
      for (let i = 0; i < count; i++) {
        if (buckets[i] !== b) continue;
        pen.moveTo(screen[4 * i], screen[4 * i + 1]);
        pen.lineTo(screen[4 * i + 2], screen[4 * i + 3]);
      }
      const [colour, wide] = this.lineOf(b);
      pen.lineWidth = this.turning ? 1 : wide;
      pen.strokeStyle = colour;
      if (b === DOWN) this.dash();
      pen.stroke();
      pen.setLineDash([]);
    }
  }

  /** What is down is a broken line. */
  dash() {
    const thin = this.thin();
    this.pen.setLineDash([thin * 1.6, thin * 2]);
  }

  /** Not to be drawn: idle, or below what was chosen. */
  isHidden(value, most) {
    const size = Math.abs(value);
    return (this.hideIdle && !(size > 0)) || (this.least > 0 && this.gauge.part(size, most) < this.least);
  }

  /** A node that no job has anything on, and that works. */
  isIdle(node) {
    return !(this.jobOf && this.jobOf.has(node)) && !(this.setOf && this.setOf.has(node)) && !this.dead.has(node);
  }

  /** Reads faults as people write them: `link 0,0,0 +X corrupt=1%`, `node 0,0,0 down`. */
  readFaults() {
    const { faults } = this.store;
    if (this.faults === faults) return;
    this.faults = faults;
    this.marked = [];
    this.dead = new Set();
    const letters = kinds => [...new Set(kinds.map(kind => LETTERS[kind.split("=")[0]]).filter(Boolean))].join("");
    for (const fault of faults) {
      const [site, at, ...more] = fault.split(/\s+/), node = this.torus.nodeAt(at);
      if (node < 0) continue;
      const direction = site === "link" ? DIRECTIONS.indexOf(more.shift()) : -1;
      if (site === "node" && more.includes("down")) this.dead.add(node);
      const text = letters(more);
      if (!text) continue;
      if (site === "node") this.marked.push({ kind: "node", node, text });
      else if (direction >= 0 && this.torus.neighbour(node, direction) >= 0) this.marked.push({ kind: "link", link: linkOf(node, direction), text });
    }
  }

  /** Crosses on nodes that are out of service, letters on what is impaired. */
  drawMarks() {
    const { pen, nodeScreen, ratio } = this, size = Math.max(4 * ratio, this.nodeSize());
    pen.strokeStyle = this.colours.bad;
    pen.lineWidth = Math.max(2 * ratio, size * 0.22);
    pen.beginPath();
    for (const node of this.dead) {
      const x = nodeScreen[3 * node], y = nodeScreen[3 * node + 1], r = size * 0.8;
      pen.moveTo(x - r, y - r);
      pen.lineTo(x + r, y + r);
      pen.moveTo(x - r, y + r);
      pen.lineTo(x + r, y - r);
    }
    pen.stroke();
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const mark of this.marked) {
      // Beside the number of a node, not on it.
      const aside = mark.kind === "node" ? size * 0.8 : 0, [x, y] = this.where(mark).map((v, i) => v * ratio + (i ? -aside : aside));
      const r = Math.max(6 * ratio, Math.min(9 * ratio, size * 0.7));
      pen.beginPath();
      pen.arc(x, y, r, 0, 7);
      pen.fillStyle = this.colours.warn;
      pen.fill();
      pen.fillStyle = this.colours.ground;
      pen.font = `700 ${Math.round(r * 1.3)}px system-ui, 'DejaVu Sans', sans-serif`;
      pen.fillText(mark.text, x, y + r * 0.05);
    }
  }

  /** Where the coordinates grow, at the lower right. */
  drawAxes() {
    const { pen, canvas, ratio } = this, long = 30 * ratio, ox = canvas.width - 88 * ratio, oy = canvas.height - 56 * ratio;
    const cy = Math.cos(this.yaw), sy = Math.sin(this.yaw), cp = Math.cos(this.pitch), sp = Math.sin(this.pitch);
    // Coordinates of the 4th dimension grow from block to block, or across the place that its nodes share.
    const axes = [["X", 1, 0, 0], ["Y", 0, -1, 0], ["Z", 0, 0, 1], ["W", ...(this.fourth === "nested" ? [0.6, 0.6, 0.6] : [1.75, 0, 0])]];
    pen.font = `600 ${12 * ratio}px system-ui, 'DejaVu Sans', sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineWidth = 1.5 * ratio;
    pen.strokeStyle = this.colours.soft;
    pen.fillStyle = this.colours.text;
    for (const [letter, x, y, z] of axes.slice(0, this.torus.dims.length)) {
      const dx = cy * x + sy * z, dy = -(cp * y - sp * (-sy * x + cy * z));
      // Blocks stand beside each other where X grows, too: a line of its own.
      const lower = letter === "W" && this.fourth !== "nested" ? oy + 16 * ratio : oy;
      pen.beginPath();
      pen.moveTo(ox, lower);
      pen.lineTo(ox + long * dx, lower + long * dy);
      pen.stroke();
      const away = 1 + (10 * ratio) / (long * Math.max(0.25, Math.hypot(dx, dy)));
      pen.fillText(letter, ox + long * dx * away, lower + long * dy * away);
    }
  }

  drawTrees() {
    const { pen, store, nodeScreen } = this;
    for (const tree of store.trees) {
      pen.strokeStyle = named(tree.tree + 2);
      pen.lineWidth = Math.max(1.5, this.unit * 0.03);
      pen.setLineDash([this.unit * 0.08, this.unit * 0.06]);
      pen.beginPath();
      const halves = tree.up.flatMap(link => [[this.indexOf(link), true], [this.indexOf(this.torus.opposite(link)), false]]).filter(([k]) => k >= 0);
      for (const [k] of halves) {
        pen.moveTo(this.screen[4 * k], this.screen[4 * k + 1]);
        pen.lineTo(this.screen[4 * k + 2], this.screen[4 * k + 3]);
      }
      pen.stroke();
      pen.setLineDash([]);
      this.drawWays(halves, store.ways.get(tree.tree) || { up: true, down: false });
      if (tree.root !== null) this.ring(nodeScreen[3 * tree.root], nodeScreen[3 * tree.root + 1], this.nodeSize() * 1.5, pen.strokeStyle);
    }
  }

  /** Arrows on halves of a tree's cables: each is that of the child, or of the parent. */
  drawWays(halves, { up, down }) {
    const { pen, screen } = this, head = Math.min(11 * this.ratio, this.unit * 0.16);
    // Where they would be smaller they are no arrows.
    if (head < 3 * this.ratio) return;
    pen.fillStyle = pen.strokeStyle;
    for (const [k, isChilds] of halves) {
      const [ax, ay, bx, by] = screen.subarray(4 * k, 4 * k + 4), long = Math.hypot(bx - ax, by - ay) || 1;
      // If both go, the arrow of each half leads to its node: results down to the child, sums up to the parent.
      const outward = up && down ? false : isChilds === up;
      const sign = outward ? 1 : -1, ux = sign * (bx - ax) / long, uy = sign * (by - ay) / long, part = 0.62;
      const x = ax + (bx - ax) * part + ux * head / 2, y = ay + (by - ay) * part + uy * head / 2;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x - ux * head - uy * head * 0.55, y - uy * head + ux * head * 0.55);
      pen.lineTo(x - ux * head + uy * head * 0.55, y - uy * head - ux * head * 0.55);
      pen.fill();
    }
  }

  nodeSize() {
    if (this.isMap) return Math.max(0.8, this.unit * 0.26);
    const most = this.torus.nodes > MANY ? 0.06 : this.fourth === "nested" && this.torus.dims.length > 3 ? 0.09 : 0.17;
    return Math.max(1.4, this.unit * most);
  }

  drawNodes() {
    const { pen, nodeScreen, torus } = this, size = this.nodeSize();
    if (torus.nodes > MANY) {
      const byColour = new Map();
      for (let n = 0; n < torus.nodes; n++) {
        if (this.hideIdle && this.isIdle(n)) continue;
        const colour = this.nodeColour(n);
        if (!byColour.has(colour)) byColour.set(colour, []);
        byColour.get(colour).push(n);
      }
      for (const [colour, nodes] of byColour) {
        pen.fillStyle = colour;
        for (const n of nodes) pen.fillRect(nodeScreen[3 * n] - size, nodeScreen[3 * n + 1] - size, 2 * size, 2 * size);
      }
      if (this.setOf) this.drawMembers();
      return;
    }
    const order = Array.from({ length: torus.nodes }, (_, n) => n).sort((a, b) => nodeScreen[3 * b + 2] - nodeScreen[3 * a + 2]);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const n of order) {
      if (this.hideIdle && this.isIdle(n)) continue;
      const x = nodeScreen[3 * n], y = nodeScreen[3 * n + 1], r = size * (1 - 0.22 * (nodeScreen[3 * n + 2] / this.radius));
      this.outline(x, y, r);
      const isDead = this.dead.has(n), jobs = this.paint === "jobs" && this.jobsOf && this.jobsOf.get(n);
      pen.fillStyle = isDead ? this.colours.ground : this.nodeColour(n);
      pen.fill();
      if (!isDead && jobs && jobs.length > 1) this.drawShares(jobs, x, y, r);
      pen.lineWidth = Math.max(1, r * 0.12);
      pen.strokeStyle = isDead ? this.colours.bad : this.colours.ground;
      this.outline(x, y, r);
      pen.stroke();
      const member = this.setOf && this.setOf.get(n);
      if (member) this.drawMember(member, x, y, r * 1.22);
      const pes = this.peOf && this.peOf.get(n);
      if (r < 9 * this.ratio || !pes || this.paint !== "jobs") continue;
      const text = label(pes, jobs);
      pen.fillStyle = "#10151b";
      pen.font = `600 ${Math.round(Math.min((r * 2.4) / Math.max(2.4, text.length), 14 * this.ratio))}px system-ui, 'DejaVu Sans', sans-serif`;
      pen.fillText(text, x, y + r * 0.06);
    }
  }

  drawMembers() {
    const size = this.nodeSize() * 1.7, { nodeScreen } = this;
    for (const [n, member] of this.setOf) this.drawMember(member, nodeScreen[3 * n], nodeScreen[3 * n + 1], size);
  }

  /** A node that several jobs have PEs on has a sector for each, a cell of a map a stripe. */
  drawShares(jobs, x, y, r) {
    const { pen } = this, part = 1 / jobs.length;
    jobs.forEach((job, i) => {
      pen.beginPath();
      pen.moveTo(x, y);
      if (this.isMap) pen.rect(x - r + 2 * r * i * part, y - r, 2 * r * part, 2 * r);
      else pen.arc(x, y, r, 2 * Math.PI * i * part, 2 * Math.PI * (i + 1) * part);
      pen.fillStyle = named(job);
      pen.fill();
    });
  }

  /** The path of a node: a ball, or a cell of a map. */
  outline(x, y, r) {
    this.pen.beginPath();
    if (this.isMap) this.pen.rect(x - r, y - r, 2 * r, 2 * r);
    else this.pen.arc(x, y, r, 0, 7);
  }

  /** Nodes of a set have a ring in their job's colour; one that only passes packets on has a broken one, and is hollow. */
  drawMember({ job, transit }, x, y, r) {
    if (transit) this.pen.setLineDash([r * 0.4, r * 0.4]);
    this.ring(x, y, r, named(job), Math.max(1, (r * 0.16) / this.ratio));
    this.pen.setLineDash([]);
  }

  drawPulses(now) {
    const size = this.nodeSize(), { nodeScreen, store } = this;
    for (let n = 0; n < this.torus.nodes; n++) {
      const age = now - store.pulses[n];
      if (store.pulses[n] === 0 || age > PULSE || age < 0) continue;
      this.pen.globalAlpha = 1 - age / PULSE;
      this.ring(nodeScreen[3 * n], nodeScreen[3 * n + 1], size * (1 + 1.4 * (age / PULSE)), this.colours.text);
      this.pen.globalAlpha = 1;
      this.dirty = true;
    }
  }

  ring(x, y, r, colour, wide = 1.6) {
    this.outline(x, y, r);
    this.pen.lineWidth = wide * this.ratio;
    this.pen.strokeStyle = colour;
    this.pen.stroke();
  }

  drawChosen() {
    for (const [what, wide] of [[this.hover, 1.4], [this.chosen, 2.4]]) {
      if (!what) continue;
      if (what.kind === "node") {
        this.ring(this.nodeScreen[3 * what.node], this.nodeScreen[3 * what.node + 1], this.nodeSize() * (this.setOf && this.setOf.has(what.node) ? 1.75 : 1.35), this.colours.chosen, wide);
        continue;
      }
      const i = this.indexOf(what.link), s = this.screen;
      if (i < 0) continue;
      const { pen } = this, thick = Math.max(3, this.unit * 0.12);
      pen.lineCap = "round";
      for (const [width, colour] of [[thick + wide * 2 * this.ratio, this.colours.chosen], [thick, this.colourOf(what.link)]]) {
        pen.beginPath();
        // Not over the number of its node.
        pen.moveTo(s[4 * i] * 0.6 + s[4 * i + 2] * 0.4, s[4 * i + 1] * 0.6 + s[4 * i + 3] * 0.4);
        pen.lineTo(s[4 * i + 2], s[4 * i + 3]);
        pen.lineWidth = width;
        pen.strokeStyle = colour;
        pen.stroke();
      }
      this.ring(s[4 * i], s[4 * i + 1], this.nodeSize() * 1.1, this.colours.chosen, 1);
    }
  }

  /** Where a link stands among the drawn ones. */
  indexOf(link) {
    const links = this.half.links;
    let low = 0, high = links.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (links[middle] === link) return middle;
      if (links[middle] < link) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  /** Where on the page a node, or the middle of a half link, is drawn. */
  where(what) {
    if (what.kind === "node") return [this.nodeScreen[3 * what.node] / this.ratio, this.nodeScreen[3 * what.node + 1] / this.ratio];
    const i = this.indexOf(what.link), s = this.screen;
    const part = this.isMap ? 0.8 : 0.6;
    return [0, 1].map(k => (s[4 * i + k] * (1 - part) + s[4 * i + 2 + k] * part) / this.ratio);
  }

  /** The node or link at a place of the canvas. */
  pick(px, py) {
    const x = px * this.ratio, y = py * this.ratio, { nodeScreen, screen, half } = this;
    // Links of a map are short: what is outside a cell is a link.
    const reach = this.nodeSize() + (this.isMap ? 0 : 3 * this.ratio);
    let best = null, nearest = Infinity;
    for (let n = 0; n < this.torus.nodes; n++) {
      const away = Math.hypot(nodeScreen[3 * n] - x, nodeScreen[3 * n + 1] - y);
      if (!(away <= reach) || (this.hideIdle && this.isIdle(n))) continue;
      const rank = nodeScreen[3 * n + 2] + away / 1e3;
      if (rank < nearest) [nearest, best] = [rank, { kind: "node", node: n }];
    }
    if (best) return best;
    let least = 7 * this.ratio;
    // Of a group it is the busiest.
    const group = this.dense.shown(), lines = group ? group.screen : screen;
    for (let k = 0; k < lines.length / 4; k++) {
      const i = group ? group.top[k] : k;
      if (i < 0 || this.buckets[i] === HIDDEN) continue;
      const ax = lines[4 * k], ay = lines[4 * k + 1], dx = lines[4 * k + 2] - ax, dy = lines[4 * k + 3] - ay;
      const part = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
      const away = Math.hypot(ax + part * dx - x, ay + part * dy - y);
      if (away < least) [least, best] = [away, { kind: "link", link: half.links[i] }];
    }
    return best;
  }
}
