// What colours mean: units of what links show, scales, and the picture of both.

import { inBytes, short } from "./chart.js";

/** A logarithmic scale shows so many powers of ten. */
const DECADES = 4;
/** Bytes of a flit. */
const FLIT = 16;
/** Picoseconds of a flit on a link, unless the daemon says otherwise. */
const FLIT_PS = 6400 / 3;

/** How what a link carries is shown. */
export class Gauge {
  constructor(flitPs) {
    /** Flits a second that a link carries at most. */
    this.full = 1e12 / (flitPs || FLIT_PS);
    // Seconds in which links have carried what is shown in total; null if that is not known.
    this.busy = () => null;
    this.unit = "percent";
    this.scale = "root";
  }

  /** Where on the scale something stands, from 0 to 1; `most` stands at 1. */
  part(value, most) {
    if (!(value > 0) || !(most > 0)) return 0;
    const part = Math.min(1, value / most);
    if (this.scale === "linear") return part;
    return this.scale === "root" ? Math.sqrt(part) : Math.max(0, 1 + Math.log10(part) / DECADES);
  }

  /** What stands there. */
  value(part, most) {
    if (this.scale === "linear") return part * most;
    return this.scale === "root" ? part * part * most : part > 0 ? most * 10 ** (DECADES * (part - 1)) : 0;
  }

  /** Flits, of all time or a second, in the unit that was chosen. */
  text(flits, total) {
    if (this.unit === "bytes") return `${inBytes(flits * FLIT)}${total ? "" : "/s"}`;
    if (this.unit === "flits") return `${short(flits)} flits${total ? "" : "/s"}`;
    const over = total ? this.busy() : 1;
    return over ? percent(flits / this.full / over) : `${short(flits)} flits`;
  }

  /** Flits of all time; how long they took is not asked. */
  amount(flits) {
    return this.unit === "bytes" ? inBytes(flits * FLIT) : `${short(flits)} flits`;
  }

  /** How many more or less. */
  signed(flits) {
    return flits ? `${flits > 0 ? "+" : "−"}${this.amount(Math.abs(flits))}` : "same";
  }

  /** A figure alone and its unit, as tables want them. */
  number(flits, measure) {
    const isRate = measure === "now", over = isRate ? 1 : measure === "total" ? this.busy() : null;
    if (this.unit === "bytes") return [flits * FLIT, isRate ? "bytes/s" : "bytes"];
    if (this.unit === "percent" && over) return [(100 * flits) / this.full / over, "%"];
    return [flits, isRate ? "flits/s" : "flits"];
  }

  /** What the unit is, in words. */
  words(total, replayed) {
    if (total && this.unit === "percent") return `mean per cent of a link's rate while anything was sent${replayed ? ", up to then" : ""}`;
    if (total) return `${this.unit === "bytes" ? "bytes of flits" : "flits"} over a link, ${replayed ? "up to then" : "in total"}`;
    const when = replayed ? "then" : "now";
    if (this.unit === "percent") return `per cent of a link's rate, ${when}`;
    return `${this.unit === "bytes" ? "bytes of flits" : "flits"} over a link a second, ${when}`;
  }
}

export function percent(part) {
  const value = 100 * part;
  if (value >= 10 || value === 0) return `${value.toFixed(0)} %`;
  return `${value >= 1e-6 ? value.toFixed(Math.max(0, 1 - Math.floor(Math.log10(value)))) : value.toExponential(0)} %`;
}

/** Numbers of phases that are told apart in words. */
const PHASES = 6;
const WAYS = {
  up: "from child to parent, as sums went last", down: "from parent to child, as broadcasts went last",
  both: "sums to the root, broadcasts from it", unused: "towards the root, nothing has gone yet",
};
const SCALES = { root: "square root", linear: "linear", log: `logarithm, ${DECADES} powers of ten` };

function line(box, name, shown, text) {
  let found = box.querySelector(`.${name}`);
  if (!found) {
    found = document.createElement("p");
    found.className = name;
    box.append(found);
  }
  found.hidden = !shown;
  found.textContent = text;
}

/** What colours and marks mean: shades of the scale, three labels below it, and lines of text by name. */
export function legendOf(view) {
  const { store } = view, most = view.most(), texts = {};
  if (store.sets.size) texts.sets = "ring: node of a job's set · hollow, broken ring: transit node";
  if (store.faults.length) texts.marks = "red, broken: down · × out of service · letter on a link or node: c corrupts, d drops, t delays, r has less rate";
  const { shades, labels, title } = view.measure === "difference" ? differences(view, most) : loads(view, most);
  texts.title = title;
  return { shades, labels, texts, lines: Object.values(texts) };
}

function loads(view, most) {
  const { store, gauge } = view, total = view.measure === "total", title = `${gauge.words(total, store.replayed)}; ${SCALES[gauge.scale]}, up to the busiest link${store.replayed && !total ? " of the busiest moment" : ""}`;
  const least = gauge.scale === "log" && most ? `≤ ${gauge.text(most / 10 ** DECADES, total)}` : "0";
  return { shades: view.scale, title, labels: [least, ...[0.5, 1].map(part => (most ? gauge.text(gauge.value(part, most), total) : ""))] };
}

function differences(view, most) {
  const { gauge, diverging, comparison } = view;
  const title = `${gauge.unit === "bytes" ? "bytes of flits" : "flits"} over a link: shown minus reference (${comparison.reference.words}); ${SCALES[gauge.scale]} to both sides`;
  // The unit stands above.
  const [less, more] = [-most, most].map(value => (value ? ` ${gauge.signed(value).replace(" flits", "")}` : ""));
  const labels = [`less${less}`, "same", `more${more}`];
  return { shades: [...diverging.less.slice().reverse(), view.colours.idle, view.colours.idle, ...diverging.more], title, labels };
}

/** Marks with a colour and a text each. */
function keyed(box, name, shown, marks) {
  line(box, name, shown, "");
  for (const [colour, text] of shown ? marks : []) {
    const mark = document.createElement("i");
    mark.className = "swatch";
    mark.style.background = colour;
    box.querySelector(`.${name}`).append(mark, `${text}  `);
  }
}

/** Draws what the colours and marks mean. */
export function legend(view) {
  const box = document.getElementById("legend"), { store, gauge } = view, total = view.measure === "total", most = view.most();
  const { shades, labels, texts } = legendOf(view), differs = view.measure === "difference";
  const marks = [...view.phaseColours()].slice(0, PHASES).map(([phases, colour]) => [colour, `latest barrier in ${phases} phases`]);
  keyed(box, "phases", view.paint === "barriers", [[view.colours.node, "no barrier yet"], ...marks]);
  const ways = new Set(store.trees.map(({ tree }) => { const way = store.ways.get(tree); return !way ? "unused" : way.up && way.down ? "both" : way.up ? "up" : "down"; }));
  line(box, "trees", view.showTrees && store.trees.length > 0, `broken lines: trees · ring: root · arrows: ${[...ways].map(way => WAYS[way]).join("; ")}`);
  const group = view.dense.shown(), cube = group ? view.torus.dims.slice(0, 3).map(size => Math.min(size, group.factor)).join("×") : "";
  line(box, "groups", Boolean(group), `from afar: a line stands for ${cube} nodes' links of a direction, and shows the busiest; zoom in to see each`);
  for (const name of ["sets", "marks", "title"]) line(box, name, name in texts, texts[name] || "");
  const least = gauge.value(view.least, most);
  document.getElementById("threshold").textContent = !view.least ? "0" : differs ? gauge.amount(least) : gauge.text(least, total);
  let bar = box.querySelector("canvas");
  if (!bar) {
    bar = document.createElement("canvas");
    bar.width = 240;
    bar.height = 10;
    const scale = document.createElement("div");
    scale.className = "scale";
    scale.append(...[0, 1, 2].map(() => document.createElement("span")));
    box.append(bar, scale);
  }
  const pen = bar.getContext("2d");
  shades.forEach((colour, i) => {
    pen.fillStyle = colour;
    pen.fillRect((i * 240) / shades.length, 0, 240 / shades.length + 1, 10);
  });
  [...box.querySelectorAll("span")].forEach((label, i) => { label.textContent = labels[i]; });
}
