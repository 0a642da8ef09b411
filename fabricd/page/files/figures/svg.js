// The map as a drawing that can be scaled: made from the same places, links and colours as the picture.

import { mapOf } from "../map/layout.js";
import { HIDDEN } from "../colours.js";

// In two parts: nothing is loaded from there, it is a name alone.
const SVG = ["http:", "//www.w3.org/2000/svg"].join("");
/** Units of the drawing to a cell. */
const CELL = 40;
/** The shape of a drawing: wide to high. */
const ASPECT = 1.5;
const HEAD = 64, TAIL = 76;
/** Half of a cell's side, as in the picture. */
const SIDE = 0.26;

function put(parent, name, attributes, text) {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  if (text !== undefined) found.textContent = text;
  parent.append(found);
  return found;
}

const digits = value => Number(value.toFixed(2));

/** One path for each colour, so that a large network is no larger than it must be. */
function pathsOf(count, keyOf, lineOf) {
  const paths = new Map();
  for (let i = 0; i < count; i++) {
    const key = keyOf(i);
    if (key !== null) paths.set(key, (paths.get(key) || "") + lineOf(i));
  }
  return [...paths].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** The text of the drawing; `title` has three lines. */
export function mapSvg(view, title, { shades, labels, lines }) {
  const { torus, colours } = view, map = mapOf(torus, view.pair, view.fixed, ASPECT), { at, half } = map;
  if (view.comparison) view.comparison.renew();
  const wide = Math.max(560, Math.ceil(map.wide * CELL)), notes = lines.length * 16, high = Math.ceil(map.tall * CELL) + HEAD + TAIL + notes;
  const x = v => digits(wide / 2 + v * CELL), y = v => digits(HEAD + (map.tall / 2 + v) * CELL);
  const root = put(document.createDocumentFragment(), "svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, "font-family": "system-ui, 'DejaVu Sans', sans-serif", "font-size": 12 });
  put(root, "title", {}, title.join(", "));
  put(root, "rect", { width: wide, height: high, fill: colours.ground });
  put(root, "text", { x: 16, y: 26, "font-size": 15, "font-weight": 600, fill: colours.text }, title[0]);
  put(root, "text", { x: 16, y: 46, fill: colours.soft }, `${title[1]} · ${title[2]}`);
  const most = view.most(), kind = i => {
    const bucket = view.bucketOf(half.links[i], most);
    return bucket === HIDDEN ? null : bucket;
  };
  const { ends } = half, line = i => `M${x(ends[6 * i])} ${y(ends[6 * i + 1])}L${x(ends[6 * i + 3])} ${y(ends[6 * i + 4])}`;
  const links = put(root, "g", { fill: "none", class: "links" });
  for (const [bucket, d] of pathsOf(half.links.length, kind, line)) put(links, "path", { d, stroke: view.shade(bucket), "stroke-width": digits(CELL * 0.085 * view.thick(bucket)) });
  const r = SIDE * CELL, cells = put(root, "g", { class: "nodes" });
  const ground = node => (Number.isNaN(at[3 * node]) || (view.hideIdle && view.isIdle(node)) ? null : view.nodeColour(node));
  const square = node => `M${x(at[3 * node] - SIDE)} ${y(at[3 * node + 1] - SIDE)}h${2 * r}v${2 * r}h${-2 * r}z`;
  for (const [fill, d] of pathsOf(torus.nodes, ground, square)) put(cells, "path", { d, fill });
  drawNumbers(root, view, map, x, y);
  const foot = high - 16;
  lines.forEach((text, i) => put(root, "text", { x: 16, y: foot - 36 - (lines.length - 1 - i) * 16, fill: colours.soft }, text));
  shades.forEach((fill, i) => put(root, "rect", { x: digits(16 + (i * 240) / shades.length), y: foot - 26, width: digits(240 / shades.length + 0.8), height: 10, fill }));
  labels.forEach((text, i) => put(root, "text", { x: 16 + 120 * i, y: foot, "text-anchor": ["start", "middle", "end"][i], fill: colours.soft }, text));
  return new XMLSerializer().serializeToString(root);
}

function drawNumbers(root, view, map, x, y) {
  const { torus, colours } = view, [a, b] = view.pair, group = put(root, "g", { fill: colours.soft, "text-anchor": "middle" });
  for (const one of map.maps) {
    put(group, "text", { x: x(one.x - 0.4), y: y(one.y - 1.3), "font-weight": 600, "text-anchor": "start", fill: colours.text }, one.title);
    for (let i = 0; i < torus.size[a]; i++) put(group, "text", { x: x(one.x + i), y: y(one.y - 0.7) }, i);
    for (let j = 0; j < torus.size[b]; j++) put(group, "text", { x: x(one.x - 0.78), y: y(one.y + j + 0.1) }, j);
  }
}
