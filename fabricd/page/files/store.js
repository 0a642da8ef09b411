// What is known of the network: totals, rates of the last moment, and of the last minutes.

import { linkOf } from "./torus.js";

/** Seconds that rates of links are kept for, at most. */
const HISTORY = 300;
/** Numbers that are kept for this, at most. */
const HISTORY_MAX = 6e6;
/** Rates are those of so many seconds. */
const WINDOW = 0.8;

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
    this.depth = Math.max(30, Math.min(HISTORY, Math.floor(HISTORY_MAX / links)));
    this.past = new Float32Array(links * this.depth);
    this.seconds = 0;
    this.last = null;
    this.marks = [];
    this.jobs = [];
    this.placements = new Map();
    // Which nodes a job has for itself, of those that have a set.
    this.sets = new Map();
    this.faults = [];
    this.trees = [];
    this.trunks = null;
    this.plane = null;
    this.planeRate = null;
    this.totals = [];
    this.t = 0;
    this.changes = 0;
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
    this.measure();
    this.changes++;
  }

  begin() {
    for (const figures of [this.packets, this.flits, this.bytes, this.rate, this.byteRate]) figures.fill(0);
    this.errors.clear();
    this.marks = [];
    this.last = null;
  }

  /** What a link has carried when it is heard of first, as one of another host, is no rate. */
  meet(links) {
    for (const link of links) {
      for (const mark of this.marks) [mark.flits[link], mark.bytes[link]] = [this.flits[link], this.bytes[link]];
      if (this.last) {
        this.last.flits[link] = this.flits[link];
        this.last.bytes += this.bytes[link];
      }
    }
  }

  /** Rates over the last moment, and once a second a line of history. */
  measure() {
    const marks = this.marks;
    marks.push({ t: this.t, flits: this.flits.slice(), bytes: this.bytes.slice() });
    while (marks.length > 2 && this.t - marks[1].t >= WINDOW) marks.shift();
    const first = marks[0], over = this.t - first.t;
    if (over > 0) {
      for (let i = 0; i < this.rate.length; i++) {
        // Another host's daemon that was started again counts from 0.
        this.rate[i] = Math.max(0, this.flits[i] - first.flits[i]) / over;
        this.byteRate[i] = Math.max(0, this.bytes[i] - first.bytes[i]) / over;
      }
    }
    if (!this.last) this.last = { t: this.t, flits: this.flits.slice(), bytes: sum(this.bytes) };
    if (this.t - this.last.t >= 1) {
      const gone = this.t - this.last.t, at = (this.seconds % this.depth) * this.rate.length;
      for (let i = 0; i < this.rate.length; i++) this.past[at + i] = Math.max(0, this.flits[i] - this.last.flits[i]) / gone;
      const bytes = sum(this.bytes);
      this.totals.push((bytes - this.last.bytes) / gone);
      if (this.totals.length > this.depth) this.totals.shift();
      this.last = { t: this.t, flits: this.flits.slice(), bytes };
      this.seconds++;
    }
  }

  /** Flits a second of a link over the last minutes. */
  history(link) {
    const from = Math.max(0, this.seconds - this.depth), line = [];
    for (let s = from; s < this.seconds; s++) line.push(this.past[(s % this.depth) * this.rate.length + link]);
    return line;
  }

  /** The largest of what links show. */
  most(measure) {
    const figures = measure === "total" ? this.flits : this.rate;
    let most = 0;
    for (let i = 0; i < figures.length; i++) if (figures[i] > most) most = figures[i];
    return most;
  }

  /** Links that carry most, first. */
  hottest(measure, count) {
    const figures = measure === "total" ? this.flits : this.rate, found = [];
    for (let i = 0; i < figures.length; i++) {
      if (figures[i] <= 0 || (found.length === count && figures[i] <= figures[found[count - 1]])) continue;
      found.push(i);
      found.sort((a, b) => figures[b] - figures[a]);
      found.length = Math.min(found.length, count);
    }
    return found;
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

function sum(figures) {
  let total = 0;
  for (let i = 0; i < figures.length; i++) total += figures[i];
  return total;
}
