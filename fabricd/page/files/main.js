// Puts it all together: what comes in, what is pressed, when to draw.

import { Torus, nodeOf } from "./torus.js";
import { Store } from "./store.js";
import { View } from "./view.js";
import { Panel } from "./panel.js";
import { Past } from "./past.js";
import { Player } from "./player.js";
import { source } from "./source.js";
import { seconds } from "./chart.js";
import { Gauge, legend } from "./legend.js";
import { described, keys, mouse } from "./input.js";
import { Faults } from "./faults.js";
import { Waits } from "./waits.js";
import { apply, find, read, write } from "./place.js";
import { Scenes } from "./scenes.js";
import { mapControls } from "./map/controls.js";
import { Comparison } from "./figures/reference.js";
import { Export } from "./figures/export.js";

const at = id => document.getElementById(id);
/** Milliseconds between two times that the texts beside the picture are written. */
const TEXTS = 300;
/** Milliseconds between two times that the past is asked for. */
const PASTS = 1000;

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
  const torus = new Torus(network.dims, network.torus), store = new Store(torus), view = new View(at("view"), store, new Gauge(network.flit_ps));
  if (network.owners.length) view.owners = network.owners;
  const choose = what => {
    view.chosen = what;
    view.dirty = true;
    if (what) view.reveal(what.kind === "node" ? what.node : nodeOf(what.link));
    panel.message = "";
    panel.show();
    refresh();
    view.moved();
  };
  const past = new Past(), panel = new Panel(view, store, from, network, past, choose), player = new Player(view, panel, store, past, from);
  panel.player = player;
  view.comparison = new Comparison(view, panel, player, past, Boolean(from.finished && !from.played));
  const exported = new Export(view, player);
  if (from.played) await past.ask(from);
  const faults = new Faults(panel, from, network, choose), waits = new Waits(panel, from, choose);
  panel.lists = [faults, waits];
  panel.ends = nodes => faults.ends(nodes);
  view.gauge.busy = () => past.busy(player.at === null ? undefined : player.scene.index);
  // A link's classes and channels are asked for while it is chosen.
  const refresh = async () => {
    const chosen = view.chosen;
    if (!chosen || chosen.kind !== "link" || player.at !== null) return;
    try {
      panel.details.set(chosen.link, await from.link(chosen.link));
    } catch {
      // It is asked again in a moment.
    }
    if (view.chosen === chosen && !panel.held) panel.showChosen();
  };
  at("about").textContent = `${network.torus ? "torus" : "mesh"} ${network.dims.join("×")}, ${torus.nodes} nodes${network.title ? ` · ${network.title}` : ""}`;
  document.title = `Angara ${network.dims.join("×")}`;
  at("trees").parentElement.hidden = Boolean(from.finished);
  if (from.finished) finished(view, from);
  wire(view, panel, player, network, choose);
  const place = read(from.place || location.hash);
  apply(place, view, player, network);
  view.moved = () => { if (!from.finished) write(view, player); };
  const state = new State(from, store, past, player, view);
  from.listen(event => take(event, { store, view, from, past, player }), link => state.linked(link));
  if (from.played) player.fed();
  if (!from.finished) {
    setInterval(refresh, 1000);
    await remember(past, player, from, store, state);
    if (place.time !== undefined && past.frames.length) {
      player.job = past.jobs.some(job => job.job === place.job) ? place.job : null;
      player.go(place.time, false);
    }
    if (place.at && !view.chosen) setTimeout(() => choose(find(place.at, view, network)), PASTS);
  }
  draw(view, panel, player, state);
  // For whoever looks closer, with the browser's tools.
  const scenes = new Scenes(view, panel, player, network, from, choose);
  window.angara = { store, view, panel, torus, past, player, faults, waits, scenes, exported };
  await scenes.begin();
}

/** Fetches what is kept of the past, and what is new of it from time to time. */
async function remember(past, player, from, store, state) {
  let seen = -1;
  const look = async () => {
    if (store.changes === seen && player.at === null) return;
    seen = store.changes;
    await past.ask(from);
    player.fed();
    state.show();
  };
  await look();
  setInterval(look, PASTS);
}

function say(state, text) {
  at("state").className = `state ${state}`;
  at("state").textContent = text;
}

/** What is said at the top: whether the daemon answers, a job runs, has ended, or the past is shown. */
class State {
  constructor(from, store, past, player, view) {
    Object.assign(this, { from, store, past, player, view });
    this.link = "";
  }

  linked(link) {
    this.link = link;
    this.show();
  }

  /** The job that ended last, if none runs. */
  over() {
    if (this.store.jobs.some(job => !job.ended)) return null;
    return this.store.jobs.at(-1) || this.past.jobs.at(-1) || null;
  }

  show() {
    if (this.from.finished) return this.showFinished();
    if (!this.link) return;
    const over = this.over(), { player } = this, lost = this.link === "lost";
    const banner = at("ended"), known = over && this.past.jobs.find(job => job.job === over.job && job.to !== null);
    const text = over ? `Job ${over.job}, ${over.name}, has ended${known ? ` after ${seconds(known.to - known.from)}` : ""}.` : "";
    banner.hidden = !over || !this.past.frames.length || player.at !== null;
    if (banner.querySelector("span").textContent !== text) banner.querySelector("span").textContent = text;
    this.summed(Boolean(over) && player.at === null);
    if (player.at !== null) say("past", `the past${player.playing ? ", played again" : ", paused"}${lost ? "; the daemon does not answer" : ""}`);
    else if (lost) say("lost", "the daemon does not answer; this is the last there was");
    else if (over) say("ended", "ended");
    else say("live", this.store.jobs.length ? "live" : "live, no job");
  }

  showFinished() {
    const { player } = this, sums = player.at === null;
    if (this.from.played) this.summed(sums);
    say(sums ? "finished" : "past", `a finished run${sums ? "" : player.playing ? ", played" : ", paused"}`);
  }

  /** Of what has ended, the sums are shown, unless somebody wants something else. */
  summed(over) {
    if (this.was === over) return;
    this.was = over;
    const wanted = over ? "total" : "now", other = document.querySelector(`[name=measure][value=${wanted}]`);
    if (this.view.measureChosen || other.checked) return;
    this.view.measureChosen = false;
    other.checked = true;
    this.view.measure = wanted;
    this.view.dirty = true;
    this.store.changes++;
  }
}

function finished(view, from) {
  document.querySelector("[name=paint][value=barriers]").parentElement.hidden = true;
  if (from.played) return;
  view.measure = "total";
  // A report without a history does not say when each link was busy.
  view.gauge.unit = "flits";
  at("unit").querySelector("[value=percent]").remove();
  at("measure").hidden = true;
  document.querySelector("[name=measure][value=now]").parentElement.hidden = true;
  document.querySelector("[name=measure][value=total]").checked = true;
}

async function take(event, { store, view, from, past, player }) {
  // A daemon that was started again has another past.
  if (event.full && event.t < past.ended) {
    past.clear();
    player.leave();
  }
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

function draw(view, panel, player, state) {
  let texts = 0, shown = null, before = performance.now();
  const spin = at("spin");
  const frame = now => {
    if (spin.checked && !view.isMap) {
      view.yaw += 0.004;
      view.dirty = true;
    }
    player.pass(Math.min(200, now - before));
    before = now;
    if (view.dirty) view.draw(now);
    const { store } = view, news = [store.replayed, store.changes, player.playing, view.dense.shown()?.factor].join();
    if (now - texts > TEXTS && !panel.held && shown !== news && !document.hidden && !isSelecting()) {
      [texts, shown] = [now, news];
      panel.show();
      legend(view);
      state.show();
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

function wire(view, panel, player, network, choose) {
  const canvas = at("view");
  const again = () => {
    view.dirty = true;
    panel.show();
    legend(view);
    view.moved();
  };
  for (const name of ["measure", "paint", "fourth"]) {
    for (const input of document.querySelectorAll(`input[name=${name}]`)) {
      input.addEventListener("change", () => {
        if (name === "fourth") view.fold(input.value);
        else view[name] = input.value;
        if (name === "measure") view.measureChosen = true;
        again();
      });
    }
  }
  for (const name of ["unit", "scale"]) at(name).addEventListener("change", () => { view.gauge[name] = at(name).value; again(); });
  mapControls(view, again);
  at("idle").addEventListener("change", () => { view.hideIdle = at("idle").checked; again(); });
  at("least").addEventListener("input", () => { view.least = Number(at("least").value); again(); });
  at("trees").addEventListener("change", () => { view.showTrees = at("trees").checked; view.dirty = true; });
  at("search").addEventListener("submit", event => {
    event.preventDefault();
    const words = at("words").value, what = words.trim() ? find(words, view, network) : null;
    at("found").textContent = !words.trim() ? "" : what ? "" : `nothing is called ${words}; try 0,0,0 or pe 1`;
    if (what) choose(what);
  });
  at("words").addEventListener("keydown", event => { if (event.key === "Escape") canvas.focus(); });
  // What is being pressed must not be put anew before it is let go.
  at("side").addEventListener("pointerdown", () => { panel.held = true; });
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => setTimeout(() => { panel.held = false; }));
  at("whole").addEventListener("click", () => { view.whole(); view.moved(); });
  at("theme").addEventListener("click", () => theme(view, panel, view.theme === "dark" ? "light" : "dark", true));
  const kept = themeKept();
  theme(view, panel, kept || (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"), false);
  printing(view, panel);
  mouse(canvas, view, choose);
  keys(view, panel, player, choose);
}

/** The theme that was chosen; a file may have no memory. */
function themeKept() {
  try {
    const kept = localStorage.getItem("angara-theme");
    return kept === "dark" || kept === "light" ? kept : null;
  } catch {
    return null;
  }
}

function theme(view, panel, name, keep) {
  document.documentElement.className = name;
  at("theme").textContent = name === "dark" ? "light" : "dark";
  try {
    if (keep) localStorage.setItem("angara-theme", name);
  } catch {
    // It holds for this page alone.
  }
  view.setTheme(name);
  panel.show();
  legend(view);
}

/** Paper is light, whatever the screen is. */
function printing(view, panel) {
  let before = null;
  const put = name => {
    theme(view, panel, name, false);
    view.draw(performance.now());
  };
  const begin = () => {
    if (before === null) before = view.theme;
    put("light");
  };
  const end = () => {
    if (before !== null) put(before);
    before = null;
  };
  addEventListener("beforeprint", begin);
  addEventListener("afterprint", end);
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? begin() : end()));
}

start();
