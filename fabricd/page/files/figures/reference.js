// A run to compare with: totals of links that are held, and how far what is shown is from them.

import { DIRECTIONS, linkOf } from "../torus.js";
import { short } from "../chart.js";

const part = id => document.getElementById(id);
/** Bytes of a report that are read, at most. */
const LARGEST = 256e6;
/** The newest format of reports that is known here. */
const FORMAT = 2;

class NoReport extends Error {}

/** A torus or mesh as reports write it. */
export const shapeOf = torus => `${torus.isTorus ? "" : "mesh:"}${torus.dims.join("x")}`;

/** Flits of each link, of a report's text. Whatever is in it may be nonsense. */
export function flitsOf(text, torus) {
  let report;
  try {
    report = JSON.parse(text);
  } catch {
    throw new NoReport("it is not JSON");
  }
  if (!report || typeof report.shape !== "string" || !Array.isArray(report.links) || typeof report.format !== "number") throw new NoReport("it is not what `angara run --report FILE` writes");
  if (report.format > FORMAT) throw new NoReport(`its format is ${report.format}, newer than this page's ${FORMAT}`);
  const shape = report.shape.replace(/^torus:/, "").slice(0, 60);
  if (shape !== shapeOf(torus)) throw new NoReport(`its network is ${shape}, this one is ${shapeOf(torus)}`);
  const flits = new Float64Array(linkOf(torus.nodes, 0));
  report.links.forEach((link, i) => {
    const direction = link ? DIRECTIONS.indexOf(link.dir) : -1;
    if (direction < 0 || !Number.isInteger(link.node) || link.node < 0 || link.node >= torus.nodes || torus.neighbour(link.node, direction) < 0) throw new NoReport(`link ${i} of its list is not in this network`);
    for (const load of Object.values(link.load || {})) {
      if (!load || !(load.flits >= 0)) throw new NoReport(`link ${i} of its list has no number of flits`);
      flits[linkOf(link.node, direction)] += load.flits;
    }
  });
  return flits;
}

/** The text of a file; a long report is compressed. */
async function textOf(file) {
  if (file.size > LARGEST) throw new NoReport(`it has more than ${short(LARGEST)}B`);
  const begin = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  if (begin[0] !== 0x1f || begin[1] !== 0x8b) return file.text();
  try {
    return await new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).text();
  } catch {
    throw new NoReport("it is compressed, but broken");
  }
}

export class Comparison {
  constructor(view, panel, player, past, finished) {
    Object.assign(this, { view, panel, player, past, finished });
    /** Flits of each link that are compared with, and what they are; null if nothing is held. */
    this.reference = null;
    this.most = 0;
    part("hold").addEventListener("click", () => this.hold());
    part("forget").addEventListener("click", () => this.forget());
    part("choose").addEventListener("click", () => part("report").click());
    part("report").addEventListener("change", () => this.read(part("report").files[0]));
    this.show();
  }

  /** What links have carried before the stretch of time that is shown; null if it has no beginning. */
  before() {
    const { player, past } = this;
    if (player.at === null) return null;
    const begin = player.start, key = `${begin} ${past.last} ${past.dropped}`;
    if (this.base && this.base.key === key) return this.base.flits;
    const flits = new Float64Array(this.view.store.flits.length);
    for (const frame of past.frames) {
      if (past.span(frame)[0] >= begin) break;
      for (let i = 0; i < frame.links.length; i += 2) flits[frame.links[i]] += frame.links[i + 1];
    }
    this.base = { key, flits };
    return flits;
  }

  /** What each link has carried in all that is shown. */
  totals() {
    const { flits } = this.view.store, before = this.before();
    return before ? flits.map((value, link) => Math.max(0, value - before[link])) : flits.slice();
  }

  hold() {
    // It would differ from itself alone.
    if (this.finished) return;
    const { player, past } = this, job = player.at !== null && player.job !== null && past.jobs.find(one => one.job === player.job);
    const what = job ? `job ${job.job}, ${job.name}, up to ${part("clock").textContent}` : player.at !== null ? `the past, up to ${part("clock").textContent}` : "all up to now";
    this.put(this.totals(), `${what}, held at ${new Date().toTimeString().slice(0, 8)}`);
  }

  async read(file) {
    if (!file) return;
    // The same file may be chosen again.
    const name = file.name;
    try {
      this.put(flitsOf(await textOf(file), this.view.torus), `the report ${name}`);
    } catch (refused) {
      this.show(`${name} cannot be the reference: ${refused instanceof NoReport ? refused.message : "it cannot be read"}.`);
    }
    part("report").value = "";
  }

  put(flits, words) {
    this.reference = { flits, words, sum: flits.reduce((a, b) => a + b, 0) };
    this.show();
    this.again();
  }

  forget() {
    this.reference = null;
    if (this.view.measure === "difference") document.querySelector("[name=measure][value=total]").click();
    this.show();
    this.again();
  }

  again() {
    this.renew();
    this.view.dirty = true;
    this.view.store.changes++;
    this.panel.show();
  }

  /** Counts anew how far each link is from the reference. */
  renew() {
    if (!this.reference) return;
    const { store } = this.view, { flits } = this.reference, before = this.before();
    const is = this.counted;
    if (is && is.store === store && is.changes === store.changes && is.flits === flits && is.before === before) return;
    this.counted = { store, changes: store.changes, flits, before };
    this.now = this.totals();
    this.differences = this.now.map((value, link) => value - flits[link]);
    this.most = this.differences.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  }

  /** How many flits more than in the reference a link has carried. */
  of(link) {
    return this.differences ? this.differences[link] : 0;
  }

  /** Rows about a link: the reference, what is shown, and the difference. */
  rows(link) {
    if (!this.reference) return null;
    this.renew();
    const { gauge } = this.view;
    return [["reference", gauge.amount(this.reference.flits[link])], ["shown", gauge.amount(this.now[link])], ["difference", gauge.signed(this.of(link))]];
  }

  show(message = "") {
    const { reference } = this, label = document.querySelector("[name=measure][value=difference]").parentElement;
    label.hidden = !reference;
    if (this.finished) part("measure").hidden = !reference;
    part("hold").hidden = this.finished;
    part("forget").hidden = !reference;
    part("held").textContent = reference ? `${reference.words}: ${short(reference.sum)} flits on all links. Choose “difference” above (D).` : this.finished ? "Choose the report of another run, and see how links differ." : "Hold what links have carried, and see how they differ later.";
    part("refused").textContent = message;
    part("refused").hidden = !message;
  }
}
