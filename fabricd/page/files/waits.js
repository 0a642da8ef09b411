// Who waits for whom: arrows between PEs that wait for each other, and a list. The daemon looks only while this is open.

import { named } from "./colours.js";
import { make } from "./panel.js";
import { seconds } from "./chart.js";

/** Milliseconds between two looks. */
const WAITS_AGAIN = 1000;
/** Arrows that are drawn: of more one sees none. */
const ARROWS = 160;
/** Groups of PEs in the list. */
const GROUPS = 16;
/** Jobs that are asked about. */
const WAIT_JOBS = 4;

/** Numbers in a few characters: `0–3, 7`. */
function ranges(pes) {
  const found = [];
  for (const pe of [...pes].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && last[1] + 1 === pe) last[1] = pe;
    else found.push([pe, pe]);
  }
  const shown = found.slice(0, 8).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
  return found.length > 8 ? `${shown}, …` : shown;
}

/** PEs that wait for each other in a circle: those that come back to themselves when each one's first wait is followed. */
export function circle(waits) {
  const next = new Map(waits.filter(one => one.on.length === 1).map(one => [one.pe, one.on[0]])), state = new Map(), found = new Set();
  for (const start of next.keys()) {
    const path = [];
    let pe = start;
    for (; next.has(pe) && !state.has(pe); pe = next.get(pe)) {
      state.set(pe, start);
      path.push(pe);
    }
    if (state.get(pe) === start && path.includes(pe)) path.slice(path.indexOf(pe)).forEach(one => found.add(one));
  }
  return found;
}

export class Waits {
  constructor(panel, from, choose) {
    Object.assign(this, { panel, from, choose, view: panel.view });
    this.open = false;
    this.jobs = [];
    this.round = 0;
    const tick = document.getElementById("waiting");
    tick.parentElement.hidden = Boolean(from.finished);
    tick.addEventListener("change", () => this.turn(tick.checked));
    this.view.overlays.push(() => { if (this.open) this.draw(); });
    document.addEventListener("visibilitychange", () => this.turn(this.open));
    if (tick.checked) this.turn(true);
  }

  turn(open) {
    this.open = open;
    this.round++;
    if (!open) this.jobs = [];
    if (open && !document.hidden) this.look(this.round);
    this.show();
    this.view.dirty = true;
  }

  /** Asks, again and again, as long as nothing else was chosen. */
  async look(round) {
    const { store } = this.panel, found = [];
    for (const job of store.replayed ? [] : store.jobs.filter(one => !one.ended).slice(0, WAIT_JOBS)) {
      try {
        const said = await this.from.waits(job.job);
        found.push({ job, ...said, circle: circle(said.waits) });
      } catch {
        // It is over, or asked about again in a moment.
      }
    }
    if (round !== this.round) return;
    this.jobs = found;
    if (!this.panel.held) this.show();
    this.view.dirty = true;
    setTimeout(() => { if (round === this.round) this.look(round); }, WAITS_AGAIN);
  }

  /** Every arrow: from a node to a node, and whether it is part of a circle. Circles come first, then the longest waits. */
  arrows() {
    const all = [];
    for (const { job, waits, circle } of this.jobs) {
      const nodes = this.panel.store.placements.get(job.job) || [];
      for (const { pe, on } of waits) for (const to of on) if (nodes[pe] !== undefined && nodes[to] !== undefined && nodes[pe] !== nodes[to]) all.push({ from: nodes[pe], to: nodes[to], bad: circle.has(pe) && circle.has(to) });
    }
    return [...all.filter(one => one.bad), ...all.filter(one => !one.bad)];
  }

  draw() {
    const { view } = this, { pen, nodeScreen, ratio, colours } = view, size = view.nodeSize();
    if (this.panel.store.replayed) return;
    for (const { from, to, bad } of this.arrows().slice(0, ARROWS).reverse()) {
      const [ax, ay, bx, by] = [nodeScreen[3 * from], nodeScreen[3 * from + 1], nodeScreen[3 * to], nodeScreen[3 * to + 1]];
      const long = Math.hypot(bx - ax, by - ay) || 1, ux = (bx - ax) / long, uy = (by - ay) / long, bend = Math.min(0.22 * long, 60 * ratio);
      // Bent to one side, so that two that wait for each other have two arrows.
      const mx = (ax + bx) / 2 - uy * bend, my = (ay + by) / 2 + ux * bend, away = Math.hypot(bx - mx, by - my) || 1;
      const vx = (bx - mx) / away, vy = (by - my) / away, ex = bx - vx * size * 1.25, ey = by - vy * size * 1.25, head = 9 * ratio;
      pen.strokeStyle = pen.fillStyle = bad ? colours.bad : colours.warn;
      pen.lineWidth = (bad ? 3 : 2) * ratio;
      const begin = Math.hypot(mx - ax, my - ay) || 1;
      pen.beginPath();
      pen.moveTo(ax + ((mx - ax) / begin) * size * 1.1, ay + ((my - ay) / begin) * size * 1.1);
      pen.quadraticCurveTo(mx, my, ex - vx * head * 0.7, ey - vy * head * 0.7);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(ex, ey);
      pen.lineTo(ex - vx * head - vy * head * 0.5, ey - vy * head + vx * head * 0.5);
      pen.lineTo(ex - vx * head + vy * head * 0.5, ey - vy * head - vx * head * 0.5);
      pen.fill();
    }
  }

  /** PEs as a button that leads to the node of the first. */
  pes(job, pes) {
    const node = (this.panel.store.placements.get(job.job) || [])[pes[0]], text = `PE ${ranges(pes)}`;
    if (node === undefined) return text;
    return make("button", { class: "link", type: "button", "data-key": `waits ${job.job} ${text}`, onclick: () => this.choose({ kind: "node", node }) }, text);
  }

  /** Those that wait for the same with the same words stand together, the longest wait first. */
  groups({ job, waits, circle }) {
    const groups = new Map(), chosen = this.view.chosen, nodes = this.panel.store.placements.get(job.job) || [];
    for (const one of waits) {
      const key = `${one.what}\n${one.on.join()}`;
      if (!groups.has(key)) groups.set(key, { what: one.what, on: one.on, seconds: one.seconds, pes: [] });
      groups.get(key).pes.push(one.pe);
    }
    const mine = group => chosen && chosen.kind === "node" && group.pes.some(pe => nodes[pe] === chosen.node);
    const list = [...groups.values()].sort((a, b) => (mine(b) ? 1 : 0) - (mine(a) ? 1 : 0) || b.seconds - a.seconds);
    const shown = list.slice(0, GROUPS).map(group => make("div", { class: "fault" },
      make("p", {}, this.pes(job, group.pes), ` for ${seconds(group.seconds)}`, group.on.length ? " → " : "", group.on.length ? this.pes(job, group.on) : "",
        group.pes.some(pe => circle.has(pe)) ? make("span", { class: "bad" }, " in a circle") : null),
      make("p", { class: "soft" }, group.what)));
    if (list.length > GROUPS) shown.push(make("p", { class: "soft" }, `and ${list.length - GROUPS} more`));
    return shown;
  }

  show() {
    const { panel } = this;
    if (!this.open) return panel.fill("waits", "");
    if (panel.store.replayed) return panel.fill("waits", "Who waits for whom", make("p", { class: "soft" }, "Of the past that is not known."));
    const children = [], count = this.arrows().length;
    for (const one of this.jobs) {
      const { job, pes, waiting } = one;
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = named(job.job);
      children.push(make("p", {}, swatch, `job ${job.job}, ${job.name}: ${waiting} of ${pes} PEs wait in the library`));
      if (one.circle.size) children.push(make("p", { class: "bad" }, `PE ${ranges(one.circle)} wait for each other in a circle.`));
      children.push(...this.groups(one));
    }
    if (!this.jobs.length) children.push(make("p", { class: "soft" }, "No job runs."));
    if (count > ARROWS) children.push(make("p", { class: "soft" }, `${ARROWS} of ${count} arrows are drawn.`));
    panel.fill("waits", "Who waits for whom", ...children);
  }
}
