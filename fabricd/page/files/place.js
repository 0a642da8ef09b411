// Where one is: finding things by name, and an address that leads back.

import { DIRECTIONS, directionOf, linkOf, nodeOf } from "./torus.js";
import { pairName, pairOf, sliceName, sliceOf } from "./map/layout.js";

/** Finds a node (`1,0,2` or its number), PE (`pe 5`), link (`1,0,2 +X`), job (`job 1` or its name) or host. */
export function find(words, view, network) {
  const { torus, store } = view, text = words.trim();
  const link = /^(?:link\s+)?([\d, ]+?)\s*([+\-−][xyzwXYZW])$/.exec(text);
  if (link) {
    const node = torus.nodeAt(link[1]), direction = DIRECTIONS.indexOf(link[2].replace("−", "-").toUpperCase());
    return node >= 0 && torus.neighbour(node, direction) >= 0 ? { kind: "link", link: linkOf(node, direction) } : null;
  }
  const pe = /^pe\s*(\d{1,9})(?:\s+of\s+(?:job\s*)?(\d{1,9}))?$/i.exec(text);
  if (pe) {
    const job = store.jobs.find(one => pe[2] === undefined ? (store.placements.get(one.job) || [])[pe[1]] !== undefined : one.job === Number(pe[2]));
    const node = job && (store.placements.get(job.job) || [])[pe[1]];
    return node === undefined ? null : { kind: "node", node };
  }
  const node = torus.nodeAt(text.replace(/^node\s+/i, ""));
  if (node >= 0) return { kind: "node", node };
  const name = text.replace(/^(job|host)\s+/i, "").toLowerCase();
  const job = store.jobs.find(one => `${one.job}` === name || one.name.toLowerCase() === name);
  const first = job && (store.placements.get(job.job) || [])[0];
  if (first !== undefined) return { kind: "node", node: first };
  const host = network.hosts.findIndex(one => one.toLowerCase() === name), owned = network.owners.indexOf(host);
  if (host >= 0 && (owned >= 0 || !network.owners.length)) return { kind: "node", node: Math.max(0, owned) };
  return null;
}

/** What an address may say, and what is taken for it. Anything else is left alone. */
const CHOICES = { measure: ["now", "total"], paint: ["jobs", "hosts", "barriers"], fourth: ["unfolded", "nested"], unit: ["percent", "flits", "bytes"], scale: ["root", "linear", "log"] };

/** Reads the part after `#` that is no token. */
export function read(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, "")), found = {};
  for (const [name, words] of Object.entries(CHOICES)) if (words.includes(given.get(name))) found[name] = given.get(name);
  // Which pairs and slices there are depends on the torus.
  if (given.get("view") === "map") found.map = { pair: given.get("pair"), slice: given.get("slice") };
  const numbers = (given.get("camera") || "").split(",").map(Number);
  if (numbers.length === 5 && numbers.every(Number.isFinite)) found.camera = numbers;
  const least = Number(given.get("least"));
  if (least > 0 && least < 1) found.least = least;
  if (given.get("idle") === "hidden") found.hideIdle = true;
  if (given.get("at")) found.at = given.get("at").slice(0, 80);
  const time = Number(given.get("time"));
  if (given.get("time") && Number.isFinite(time) && time >= 0) found.time = time;
  const job = Number(given.get("job"));
  if (Number.isSafeInteger(job) && job > 0) found.job = job;
  return found;
}

/** Writes it, without what is as it was. */
export function write(view, player) {
  const said = new URLSearchParams();
  for (const name of ["measure", "paint", "fourth"]) if (CHOICES[name].indexOf(view[name]) > 0) said.set(name, view[name]);
  for (const name of ["unit", "scale"]) if (view.gauge[name] !== CHOICES[name][0]) said.set(name, view.gauge[name]);
  if (view.isMap) {
    const pair = pairName(view.pair), slice = sliceName(view.torus, view.pair, view.fixed);
    said.set("view", "map");
    if (pair !== "xy") said.set("pair", pair);
    if (slice) said.set("slice", slice);
  }
  said.set("camera", [view.yaw, view.pitch, view.zoom, ...view.pan].map(v => Number(v.toFixed(3))).join());
  if (view.least) said.set("least", view.least);
  if (view.hideIdle) said.set("idle", "hidden");
  const { chosen, torus } = view;
  if (chosen) said.set("at", chosen.kind === "node" ? torus.show(chosen.node) : `${torus.show(nodeOf(chosen.link))} ${DIRECTIONS[directionOf(chosen.link)]}`);
  if (player.at !== null) said.set("time", Number(player.at.toPrecision(9)));
  if (player.at !== null && player.job !== null) said.set("job", player.job);
  const hash = `#${said}`;
  if (hash !== location.hash) history.replaceState(null, "", `${location.pathname}${hash}`);
}

/** Puts everything as an address says. */
export function apply(found, view, player, network) {
  for (const name of ["measure", "paint", "fourth"]) {
    const input = found[name] && document.querySelector(`input[name=${name}][value=${found[name]}]`);
    if (input && !input.checked && !input.closest("[hidden]")) input.click();
  }
  if (found.map) {
    const pair = pairOf(view.torus, found.map.pair) || [0, 1];
    view.lay("map", pair, sliceOf(view.torus, pair, found.map.slice) || undefined);
  }
  for (const name of ["unit", "scale"]) if (found[name] && document.querySelector(`#${name} [value=${found[name]}]`)) view.gauge[name] = document.getElementById(name).value = found[name];
  if (found.camera) {
    const [yaw, pitch, zoom, x, y] = found.camera, within = (v, most) => Math.max(-most, Math.min(most, v));
    [view.yaw, view.pitch, view.zoom, view.pan] = [yaw % 6.2832, within(pitch, 1.5), Math.max(0.4, Math.min(30, zoom)), [within(x, 1e4), within(y, 1e4)]];
  }
  if (found.least) document.getElementById("least").value = view.least = found.least;
  if (found.hideIdle) document.getElementById("idle").checked = view.hideIdle = true;
  if (found.at) view.chosen = find(found.at, view, network);
  view.dirty = true;
}
