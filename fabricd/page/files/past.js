// What has been: a bounded past of all links, kept here, so that it can be played again when the daemon has gone.

import { Store } from "./store.js";

/** Numbers of frames that are kept, at most: 48 MB of them. */
const KEPT = 12e6;
/** Steps that are kept, at most. */
const STEPS = 4000;

export class Past {
  constructor() {
    this.clear();
  }

  clear() {
    this.frames = [];
    this.steps = [];
    this.jobs = [];
    this.changes = [];
    this.held = 0;
    this.dropped = 0;
    this.last = 0;
    this.ended = 0;
  }

  /** Asks for what is new since the last time. */
  async ask(from) {
    if (this.asking) return;
    this.asking = true;
    try {
      for (let more = true; more;) {
        const answer = await from.past(this.last, Math.floor(this.ended * 1e3));
        this.take(answer);
        more = answer.more;
      }
    } catch {
      // It is asked again in a moment; what is here remains.
    } finally {
      this.asking = false;
    }
  }

  take(answer) {
    for (const frame of answer.frames) {
      if (frame.id <= this.last) continue;
      frame.links = Uint32Array.from(frame.links.flat());
      this.frames.push(frame);
      this.held += frame.links.length;
      this.last = frame.id;
    }
    while (this.frames.length > 1 && this.held > KEPT) {
      this.held -= this.frames.shift().links.length;
      this.dropped++;
    }
    for (const step of answer.steps) {
      if (step.to <= this.ended) continue;
      this.steps.push(step);
      this.ended = step.to;
    }
    if (this.steps.length > STEPS) this.steps.splice(0, this.steps.length - STEPS);
    this.jobs = answer.jobs;
    this.changes = answer.changes;
  }

  /** Whether the network has a time of its own. */
  get isVirtual() {
    if (this.virtual && this.virtual.of === this.last) return this.virtual.is;
    this.virtual = { of: this.last, is: this.hasTime() };
    return this.virtual.is;
  }

  hasTime() {
    return this.frames.length > 0 && this.frames.every(frame => frame.ps) && this.frames.at(-1).ps[1] > this.frames[0].ps[0];
  }

  /** When a frame or step began and ended, in seconds: those of the network if it has a time of its own. */
  span(of) {
    return this.isVirtual && of.ps ? [of.ps[0] / 1e12, of.ps[1] / 1e12] : [of.from, of.to];
  }

  /** From when to when there is something, all in all or while a job ran. */
  range(job) {
    const within = frame => !job || (frame.to > job.from && (job.to === null || frame.from < job.to));
    const frames = this.frames.filter(within);
    if (!frames.length) return null;
    return [this.span(frames[0])[0], this.span(frames.at(-1))[1]];
  }

  /** Seconds in which something was sent, up to a frame. */
  busy(index = this.frames.length - 1) {
    const of = `${this.last} ${index}`;
    if (this.spent && this.spent.of === of) return this.spent.seconds;
    const add = (sum, frame) => sum + Math.max(0, this.span(frame)[1] - this.span(frame)[0]);
    this.spent = { of, seconds: this.frames.slice(0, index + 1).reduce(add, 0) };
    return this.spent.seconds;
  }

  /** The number of the frame at a time, or of the next one if nothing happened then. */
  indexAt(time) {
    let low = 0, high = this.frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.span(this.frames[middle])[1] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Flits a second of a link, as lines of a chart. */
  of(link) {
    return this.frames.map(frame => {
      const at = entry(frame.links, link), [from, to] = this.span(frame);
      return [from, to, at < 0 || to <= from ? 0 : frame.links[at + 1] / (to - from)];
    });
  }

  /** Bytes a second over all links. */
  totals() {
    return this.steps.map(step => {
      const [from, to] = this.span(step);
      return [from, to, to > from ? step.bytes / (to - from) : 0];
    });
  }
}

/** Where a link stands in a list of links and flits, or -1. */
function entry(links, link) {
  let low = 0, high = links.length / 2 - 1;
  while (low <= high) {
    const middle = (low + high) >> 1, found = links[2 * middle];
    if (found === link) return 2 * middle;
    if (found < link) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** What a page shows of a moment that has been: a store like that of the present. */
export class Scene extends Store {
  constructor(torus, past) {
    super(torus);
    this.past = past;
    this.replayed = true;
    this.index = -1;
  }

  /** The same scale for all that is played: what links have carried at most in any of these pictures. */
  most(measure) {
    if (measure === "total") return super.most(measure);
    const { past } = this, of = `${past.last} ${past.dropped}`;
    if (this.peak && this.peak.of === of) return this.peak.most;
    let most = 0;
    for (const frame of past.frames) {
      const [from, to] = past.span(frame);
      if (to <= from) continue;
      for (let i = 1; i < frame.links.length; i += 2) most = Math.max(most, frame.links[i] / (to - from));
    }
    this.peak = { of, most };
    return most;
  }

  /** Everything as it was at this time. */
  seek(time) {
    const { past } = this, index = past.indexAt(time), frame = past.frames[index];
    if (index < this.index || this.index < 0 || past.dropped !== this.dropped) {
      this.flits.fill(0);
      this.index = -1;
      this.dropped = past.dropped;
    }
    for (; this.index < index && this.index + 1 < past.frames.length; this.index++) {
      const { links } = past.frames[this.index + 1];
      for (let i = 0; i < links.length; i += 2) this.flits[links[i]] += links[i + 1];
    }
    this.rate.fill(0);
    const [from, to] = frame ? past.span(frame) : [time, time];
    const moves = frame && time > from && to > from;
    if (moves) for (let i = 0; i < frame.links.length; i += 2) this.rate[frame.links[i]] = frame.links[i + 1] / (to - from);
    const part = to > from ? Math.max(0, Math.min(1, (time - from) / (to - from))) : 0;
    const wall = frame ? frame.from + (frame.to - frame.from) * part : past.ended;
    this.jobs = past.jobs.filter(job => job.from <= wall && (job.to === null || wall < job.to)).map(job => ({ ...job, attached: job.pes, age_s: wall - job.from }));
    const change = past.changes.findLast(one => one.t <= wall);
    this.faults = change ? change.faults : [];
    this.down = new Set(change ? change.down : []);
    this.t = time;
    this.changes++;
  }
}
