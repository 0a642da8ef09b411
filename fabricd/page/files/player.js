// The bar of time: pause, play again what has been, step through it.

import { Scene } from "./past.js";
import { seconds } from "./chart.js";

/** Seconds that playing all of it takes, to choose from. */
const LASTS = [5, 15, 60, 300];
/** Positions of the slider. */
const PLACES = 10000;

export class Player {
  constructor(view, panel, live, past, from) {
    Object.assign(this, { view, panel, live, past, from });
    this.scene = new Scene(live.torus, past);
    this.at = null;
    this.playing = false;
    this.lasts = 15;
    this.job = null;
    this.element = id => document.getElementById(id);
    if (from.finished) this.element("present").replaceChildren("all of it together");
    this.wire();
  }

  wire() {
    const on = (id, event, act) => this.element(id).addEventListener(event, act);
    on("play", "click", () => this.toggle());
    on("again", "click", () => this.again());
    on("back", "click", () => this.step(-1));
    on("forth", "click", () => this.step(1));
    on("present", "click", () => this.leave());
    on("moment", "input", () => this.go(this.start + (this.end - this.start) * this.element("moment").value / PLACES, false));
    on("lasts", "change", () => { this.lasts = Number(this.element("lasts").value); this.show(); });
    on("which", "change", () => this.choose(this.element("which").value));
    this.element("lasts").append(...LASTS.map(lasts => new Option(`in ${seconds(lasts)}`, lasts, lasts === this.lasts, lasts === this.lasts)));
  }

  get range() {
    return this.past.range(this.job && this.past.jobs.find(job => job.job === this.job)) || this.past.range();
  }

  get start() { return this.range ? this.range[0] : 0; }
  get end() { return this.range ? this.range[1] : 0; }

  /** Another part of the past: a job, or everything. */
  choose(value) {
    this.job = value === "all" ? null : Number(value);
    if (this.range) this.go(this.start, false);
  }

  /** New frames have come. */
  fed() {
    const which = this.element("which"), jobs = this.past.jobs;
    const list = jobs.map(job => job.job).join();
    if (which.dataset.jobs !== list) {
      const option = job => new Option(`job ${job.job}, ${job.name}`, job.job, false, job.job === this.job);
      which.replaceChildren(new Option("all that is kept", "all", false, this.job === null), ...jobs.map(option));
      which.dataset.jobs = list;
    }
    which.hidden = Boolean(this.from.finished);
    this.element("time").hidden = !this.past.frames.length;
    this.show();
  }

  toggle() {
    if (this.at === null && this.from.finished) {
      this.again();
    } else if (this.at === null) {
      this.go(this.end, false);
    } else if (this.playing) {
      this.playing = false;
    } else {
      if (this.at >= this.end) this.at = this.start;
      this.playing = true;
    }
    this.show();
  }

  /** Plays the job that was there last from its beginning. */
  again() {
    const last = this.past.jobs.at(-1);
    this.job = last ? last.job : null;
    this.element("which").value = this.job === null ? "all" : this.job;
    if (this.range) this.go(this.start, true);
  }

  async go(time, playing) {
    if (!this.range) return;
    this.playing = playing;
    this.at = Math.max(this.start, Math.min(this.end, time));
    if (this.view.store !== this.scene) this.put(this.scene);
    this.seek();
    for (const job of this.past.jobs) {
      if (this.scene.placements.has(job.job)) continue;
      const kept = this.live.placements.get(job.job);
      this.scene.placements.set(job.job, kept || []);
      try {
        if (!kept || !kept.length) this.scene.placements.set(job.job, await this.from.job(job.job));
      } catch {
        // The daemon has gone, or has forgotten the job.
      }
      this.view.placed();
    }
  }

  seek() {
    const before = this.scene.jobs.map(job => job.job).join();
    this.scene.seek(this.at);
    if (before !== this.scene.jobs.map(job => job.job).join()) this.view.placed();
    this.view.dirty = true;
    this.show();
  }

  put(store) {
    this.view.store = store;
    this.panel.store = store;
    this.view.placed();
    store.changes++;
  }

  /** Back to the present. */
  leave() {
    this.at = null;
    this.playing = false;
    this.put(this.live);
    this.show();
  }

  /** The next frame in which something is sent, or the one before. */
  step(by) {
    const { past } = this;
    const from = this.at === null ? past.frames.length : past.indexAt(this.at);
    const index = Math.max(0, Math.min(past.frames.length - 1, from + by));
    if (past.frames.length) this.go(past.span(past.frames[index])[1], false);
  }

  /** Time goes on by so many milliseconds of the page. */
  pass(ms) {
    if (!this.playing) return;
    const all = this.end - this.start;
    let next = this.at + (all * ms) / 1e3 / this.lasts;
    const frame = this.past.frames[this.past.indexAt(next)];
    // Long silence is passed over.
    if (frame && this.past.span(frame)[0] - next > all / 50) next = this.past.span(frame)[0];
    if (next >= this.end) [next, this.playing] = [this.end, false];
    this.at = next;
    this.seek();
  }

  show() {
    const { start, end, at } = this, all = end - start, slider = this.element("moment");
    const now = at === null ? end : at;
    slider.value = all > 0 ? Math.round((PLACES * (now - start)) / all) : PLACES;
    const said = at === null ? (this.from.finished ? seconds(all) : "now") : `${seconds(at - start)} of ${seconds(all)}`;
    slider.setAttribute("aria-valuetext", said);
    this.element("clock").textContent = said;
    this.element("clock").title = this.past.isVirtual ? "the network's own time" : "time of this machine";
    const play = this.element("play");
    play.textContent = at === null ? (this.from.finished ? "play" : "pause") : this.playing ? "pause" : "play";
    this.element("present").hidden = at === null;
    this.element("rate").textContent = all > 0 ? `1 s shows ${seconds(all / this.lasts)}${this.past.isVirtual ? " of virtual time" : ""}` : "";
    const { frames, steps, held } = this.past;
    this.element("kept").textContent = frames.length ? `· kept here: ${frames.length} pictures of all links, ${steps.length} of the busiest, ${Math.ceil((held * 4) / 1e6)} MB` : "";
  }
}
