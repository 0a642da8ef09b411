// What is known of the network: totals, and rates of the last moment.

import { linkOf } from "./torus.js";

/** Rates are those of so many seconds. */
const WINDOW = 0.8;

/** Where the largest figures are, largest first; those of 0 do not count. */
export function largest(figures, count) {
  const found = [];
  for (let i = 0; i < figures.length; i++) {
    if (figures[i] <= 0 || (found.length === count && figures[i] <= figures[found[count - 1]])) continue;
    found.push(i);
    found.sort((a, b) => figures[b] - figures[a]);
    found.length = Math.min(found.length, count);
  }
  return found;
}

export class Store {
  constructor(torus) {
    this.torus = torus;
    const links = linkOf(torus.nodes, 0);
    this.packets = new Float64Array(links);
    this.flits = new Float64Array(links);
    this.bytes = new Float64Array(links);
    this.errors = new Map();
    this.rate = new Float32Array(links);
    this.byteRate = new Float32Array(links);
    this.down = new Set();
    this.barriers = new Float64Array(torus.nodes);
    this.phases = new Uint32Array(torus.nodes);
    this.pulses = new Float64Array(torus.nodes);
    this.marks = [];
    this.jobs = [];
    this.placements = new Map();
    // Which nodes a job has for itself, of those that have a set.
    this.sets = new Map();
    this.faults = [];
    this.trees = [];
    // Of each tree, whether sums went up or broadcasts down when it was used last.
    this.ways = new Map();
    this.trunks = null;
    this.plane = null;
    this.planeRate = null;
    // Virtual time, in seconds, if the network has one.
    this.time = null;
    this.replayed = false;
    this.t = 0;
    this.changes = 0;
    this.began = null;
  }

  /** Takes an event of the daemon. */
  take(event) {
    if (event.full) this.begin();
    const { links, errors, barriers } = event;
    const fresh = [];
    for (let i = 0; i < links.length; i += 4) {
      const link = links[i];
      if (!event.full && this.packets[link] === 0) fresh.push(link);
      this.packets[link] = links[i + 1];
      this.flits[link] = links[i + 2];
      this.bytes[link] = links[i + 3];
    }
    this.meet(fresh);
    for (let i = 0; i < errors.length; i += 5) this.errors.set(errors[i], errors.slice(i + 1, i + 5));
    const now = performance.now();
    for (let i = 0; i < barriers.length; i += 3) {
      const node = barriers[i];
      if (!event.full && barriers[i + 1] > this.barriers[node]) this.pulses[node] = now;
      this.barriers[node] = barriers[i + 1];
      this.phases[node] = barriers[i + 2];
    }
    this.down = new Set(event.down);
    this.faults = event.faults;
    this.jobs = event.jobs;
    this.steer(event.trees, event.full);
    this.trees = event.trees;
    this.trunks = event.trunks || null;
    if (this.plane && event.t > this.t) {
      const over = event.t - this.t;
      const part = (event.plane.cpu_s - this.plane.cpu_s) / over;
      const smooth = this.planeRate ? this.planeRate.cpu * 0.8 + part * 0.2 : part;
      this.planeRate = { cpu: smooth, events: (event.plane.events - this.plane.events) / over };
    }
    this.plane = event.plane;
    this.t = event.t;
    this.time = event.ps === undefined ? null : event.ps / 1e12;
    this.measure();
    this.changes++;
  }

  /** Which way trees carry something, as far as their counters tell. */
  steer(trees, full) {
    if (full) this.ways.clear();
    for (const { tree, results, broadcasts } of trees) {
      const before = full ? null : this.trees.find(one => one.tree === tree);
      const [up, down] = before ? [results > before.results, broadcasts > before.broadcasts] : [results > 0, broadcasts > 0];
      if (up || down) this.ways.set(tree, { up, down });
    }
  }

  begin() {
    for (const figures of [this.packets, this.flits, this.bytes, this.rate, this.byteRate]) figures.fill(0);
    this.errors.clear();
    this.marks = [];
    this.began = null;
  }

  /** What a link has carried when it is heard of first, as one of another host, is no rate. */
  meet(links) {
    for (const link of links) for (const mark of this.marks) [mark.flits[link], mark.bytes[link]] = [this.flits[link], this.bytes[link]];
  }

  /** Rates over the last moment: in the network's own time, if it has one. */
  measure() {
    const marks = this.marks;
    if (this.began === null) this.began = this.time ?? this.t;
    marks.push({ t: this.t, time: this.time ?? this.t, flits: this.flits.slice(), bytes: this.bytes.slice() });
    while (marks.length > 2 && this.t - marks[1].t >= WINDOW) marks.shift();
    const first = marks[0], over = (this.time ?? this.t) - first.time;
    for (let i = 0; i < this.rate.length; i++) {
      // Another host's daemon that was started again counts from 0.
      this.rate[i] = over > 0 ? Math.max(0, this.flits[i] - first.flits[i]) / over : 0;
      this.byteRate[i] = over > 0 ? Math.max(0, this.bytes[i] - first.bytes[i]) / over : 0;
    }
  }

  /** The largest of what links show. */
  most(measure) {
    if (this.largest && this.largest.of === `${this.changes} ${measure}`) return this.largest.most;
    const figures = measure === "total" ? this.flits : this.rate;
    let most = 0;
    for (let i = 0; i < figures.length; i++) if (figures[i] > most) most = figures[i];
    this.largest = { of: `${this.changes} ${measure}`, most };
    return most;
  }

  /** Links that carry most, first. */
  hottest(measure, count) {
    return largest(measure === "total" ? this.flits : this.rate, count);
  }

  /** PEs of each job on a node. */
  pesOn(node) {
    const found = [];
    for (const job of this.jobs) {
      const nodes = this.placements.get(job.job);
      if (!nodes) continue;
      const pes = [];
      nodes.forEach((at, pe) => { if (at === node) pes.push(pe); });
      if (pes.length) found.push({ job, pes });
    }
    return found;
  }
}
