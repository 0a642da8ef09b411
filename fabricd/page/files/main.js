// Puts it all together: what comes in, what is pressed, when to draw.

import { Torus, DIRECTIONS, directionOf, linkOf, nodeOf } from "./torus.js";
import { Store } from "./store.js";
import { View } from "./view.js";
import { Panel } from "./panel.js";
import { source } from "./source.js";
import { short } from "./chart.js";

const at = id => document.getElementById(id);
/** Milliseconds between two times that the texts beside the picture are written. */
const TEXTS = 300;

async function start() {
  const from = source();
  let network;
  try {
    network = await from.open();
  } catch (refused) {
    at("about").textContent = "";
    say("lost", refused.message);
    return;
  }
  const torus = new Torus(network.dims, network.torus), store = new Store(torus), view = new View(at("view"), store);
  if (network.owners.length) view.owners = network.owners;
  const choose = what => {
    view.chosen = what;
    view.dirty = true;
    panel.message = "";
    panel.show();
    refresh();
  };
  const panel = new Panel(view, store, from, network, choose);
  // A link's classes and channels are asked for while it is chosen.
  const refresh = async () => {
    const chosen = view.chosen;
    if (!chosen || chosen.kind !== "link") return;
    try {
      panel.details.set(chosen.link, await from.link(chosen.link));
    } catch {
      // It is asked again in a moment.
    }
    if (view.chosen === chosen && !panel.held) panel.showChosen();
  };
  at("about").textContent = `${network.torus ? "torus" : "mesh"} ${network.dims.join("×")}, ${torus.nodes} nodes${network.title ? ` · ${network.title}` : ""}`;
  document.title = `Angara ${network.dims.join("×")}`;
  at("fourth").hidden = network.dims.length < 4;
  at("trees").parentElement.hidden = Boolean(from.finished);
  if (from.finished) finished(view);
  wire(view, panel, choose);
  from.listen(event => take(event, store, view, from), state => say(state, words[state]));
  if (!from.finished) setInterval(refresh, 1000);
  draw(view, panel, store);
  // For whoever looks closer, with the browser's tools.
  window.angara = { store, view, panel, torus };
}

const words = { live: "live", lost: "the daemon does not answer; this is the last there was", finished: "a finished run" };

function say(state, text) {
  at("state").className = `state ${state}`;
  at("state").textContent = text;
}

function finished(view) {
  view.measure = "total";
  at("measure").hidden = true;
  document.querySelector("[name=paint][value=barriers]").parentElement.hidden = true;
}

async function take(event, store, view, from) {
  store.take(event);
  view.dirty = true;
  const known = new Set(store.jobs.map(job => job.job));
  for (const map of [store.placements, store.sets]) for (const job of map.keys()) if (!known.has(job)) map.delete(job);
  const list = [...known].join();
  for (const job of known) {
    if (store.placements.has(job)) continue;
    store.placements.set(job, []);
    try {
      store.placements.set(job, await from.job(job));
      if (store.jobs.some(other => other.job === job && other.set)) store.sets.set(job, await from.set(job));
    } catch {
      // It is over already.
    }
    view.placed();
  }
  if (view.known !== list) view.placed();
  view.known = list;
}

function draw(view, panel, store) {
  let texts = 0, shown = -1;
  const spin = at("spin");
  const frame = now => {
    if (spin.checked) {
      view.yaw += 0.004;
      view.dirty = true;
    }
    if (view.dirty) view.draw(now);
    if (now - texts > TEXTS && !panel.held && shown !== store.changes && !document.hidden && !isSelecting()) {
      [texts, shown] = [now, store.changes];
      panel.show();
      legend(view, store);
      if (view.hover) at("tip").textContent = described(view, view.hover);
    }
    requestAnimationFrame(frame);
  };
  // A canvas of another size is empty.
  new ResizeObserver(() => {
    view.resize();
    view.draw(performance.now());
  }).observe(at("stage"));
  view.resize();
  requestAnimationFrame(frame);
}

/** Text beside the picture is being selected, which new text would undo. */
function isSelecting() {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && at("side").contains(selection.anchorNode);
}

function legend(view, store) {
  const box = at("legend"), most = store.most(view.measure), rate = view.measure === "total" ? "" : "/s";
  let bar = box.querySelector("canvas");
  if (!bar) {
    bar = document.createElement("canvas");
    bar.width = 240;
    bar.height = 10;
    const scale = document.createElement("div");
    scale.className = "scale";
    scale.append(...[0, 1, 2].map(() => document.createElement("span")));
    const title = document.createElement("p");
    const sets = document.createElement("p");
    sets.className = "sets";
    sets.textContent = "ring: node of a job's set · hollow, broken ring: transit node";
    box.append(sets, title, bar, scale);
  }
  box.querySelector(".sets").hidden = store.sets.size === 0;
  const pen = bar.getContext("2d"), colours = view.scale;
  colours.forEach((colour, i) => {
    pen.fillStyle = colour;
    pen.fillRect((i * 240) / colours.length, 0, 240 / colours.length + 1, 10);
  });
  const [low, middle, high] = box.querySelectorAll("span");
  low.textContent = "0";
  middle.textContent = most ? `${short(most / 4)}${rate}` : "";
  high.textContent = most ? `${short(most)}${rate}` : "";
  const what = view.measure === "total" ? "flits over a link, in total" : "flits over a link, now";
  box.querySelector("p:not(.sets)").textContent = `${what}; colours by the square root, up to the busiest link`;
}

function wire(view, panel, choose) {
  const canvas = at("view"), redraw = () => { view.dirty = true; };
  for (const name of ["measure", "paint", "fourth"]) {
    for (const input of document.querySelectorAll(`input[name=${name}]`)) {
      input.addEventListener("change", () => {
        if (name === "fourth") view.fold(input.value);
        else view[name] = input.value;
        redraw();
        panel.show();
        legend(view, panel.store);
      });
    }
  }
  at("trees").addEventListener("change", () => { view.showTrees = at("trees").checked; redraw(); });
  // What is being pressed must not be put anew before it is let go.
  at("side").addEventListener("pointerdown", () => { panel.held = true; });
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => setTimeout(() => { panel.held = false; }));
  at("whole").addEventListener("click", () => view.whole());
  at("theme").addEventListener("click", () => theme(view, panel, view.theme === "dark" ? "light" : "dark"));
  const kept = localStorage.getItem("angara-theme");
  theme(view, panel, kept || (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"));
  mouse(canvas, view, choose);
  keys(canvas, view, panel, choose);
}

function theme(view, panel, name) {
  document.documentElement.className = name;
  at("theme").textContent = name === "dark" ? "light" : "dark";
  localStorage.setItem("angara-theme", name);
  view.setTheme(name);
  panel.show();
  legend(view, panel.store);
}

function mouse(canvas, view, choose) {
  const fingers = new Map();
  let moved = 0;
  const place = event => [event.offsetX, event.offsetY];
  canvas.addEventListener("pointerdown", event => {
    fingers.set(event.pointerId, place(event));
    moved = 0;
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("grabbed");
  });
  canvas.addEventListener("pointermove", event => {
    const before = fingers.get(event.pointerId), now = place(event);
    if (!before) return hover(view, now);
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    moved += Math.abs(dx) + Math.abs(dy);
    if (fingers.size === 2) {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const far = point => Math.hypot(point[0] - other[0], point[1] - other[1]);
      nearer(view, far(now) / (far(before) || 1));
    } else if (event.shiftKey || event.buttons === 2) {
      view.pan = [view.pan[0] + dx, view.pan[1] + dy];
    } else {
      turn(view, dx * 0.008, dy * 0.008);
    }
    fingers.set(event.pointerId, now);
    view.dirty = true;
  });
  const up = event => {
    fingers.delete(event.pointerId);
    canvas.classList.remove("grabbed");
    if (event.type === "pointerup" && moved < 5 && event.button === 0) choose(view.pick(...place(event)));
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => { view.hover = null; at("tip").hidden = true; view.dirty = true; });
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    nearer(view, Math.exp(-event.deltaY * 0.0012));
  }, { passive: false });
}

/** What the tip says of a node or a link, as it is now. */
function described(view, what) {
  const { torus } = view;
  if (what.kind === "node") {
    const pes = view.peOf && view.peOf.get(what.node);
    const member = view.setOf && view.setOf.get(what.node);
    return `node ${torus.show(what.node)}${pes ? ` · PE ${pes.slice(0, 6).join(", ")}` : ""}${member && member.transit ? " · transit node" : ""}`;
  }
  const rate = view.measure === "total" ? "" : "/s";
  return `${torus.show(nodeOf(what.link))} ${DIRECTIONS[directionOf(what.link)]} · ${view.store.down.has(what.link) ? "down" : `${short(view.value(what.link))} flits${rate}`}`;
}

function hover(view, [x, y]) {
  const what = view.pick(x, y), tip = at("tip");
  view.hover = what;
  view.dirty = true;
  tip.hidden = !what;
  if (!what) return;
  tip.textContent = described(view, what);
  tip.style.left = `${Math.min(x + 14, view.canvas.clientWidth - 220)}px`;
  tip.style.top = `${y + 16}px`;
}

function turn(view, yaw, pitch) {
  view.yaw += yaw;
  view.pitch = Math.max(-1.5, Math.min(1.5, view.pitch + pitch));
  view.dirty = true;
}

function nearer(view, factor) {
  view.zoom = Math.max(0.4, Math.min(30, view.zoom * factor));
  view.dirty = true;
}

function keys(canvas, view, panel, choose) {
  const { torus } = view;
  const step = by => {
    const chosen = view.chosen, node = !chosen ? (by > 0 ? -1 : 0) : chosen.kind === "node" ? chosen.node : nodeOf(chosen.link);
    choose({ kind: "node", node: (node + by + torus.nodes) % torus.nodes });
  };
  const press = {
    ArrowLeft: () => turn(view, -0.08, 0), ArrowRight: () => turn(view, 0.08, 0),
    ArrowUp: () => turn(view, 0, -0.08), ArrowDown: () => turn(view, 0, 0.08),
    "+": () => nearer(view, 1.15), "=": () => nearer(view, 1.15), "-": () => nearer(view, 1 / 1.15), 0: () => view.whole(),
    n: () => step(1), p: () => step(-1), Escape: () => choose(null),
    h: () => { const [link] = panel.store.hottest(view.measure, 1); if (link !== undefined) choose({ kind: "link", link }); },
    m: () => document.querySelector("[name=measure]:not(:checked)").click(),
    t: () => at("theme").click(), "?": () => at("keys").showModal(),
  };
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || at("keys").open) return;
    const typed = event.target instanceof HTMLInputElement && event.key.startsWith("Arrow");
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key >= "1" && key <= "8" && view.chosen) {
      const node = view.chosen.kind === "node" ? view.chosen.node : nodeOf(view.chosen.link);
      if (torus.neighbour(node, key - 1) >= 0) choose({ kind: "link", link: linkOf(node, key - 1) });
    } else if (press[key] && !typed) {
      press[key]();
    } else {
      return;
    }
    event.preventDefault();
  });
}

start();
