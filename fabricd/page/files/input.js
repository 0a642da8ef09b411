// Mouse, fingers and keys.

import { DIRECTIONS, directionOf, linkOf, nodeOf } from "./torus.js";

const element = id => document.getElementById(id);

/** What the tip says of a node or a link, as it is now. */
export function described(view, what) {
  const { torus, store } = view;
  if (what.kind === "node") {
    const pes = view.peOf && view.peOf.get(what.node);
    const member = view.setOf && view.setOf.get(what.node);
    const more = pes && pes.length > 6 ? ` and ${pes.length - 6} more` : "";
    const faults = store.faults.filter(fault => fault.startsWith(`node ${torus.show(what.node)} `)).map(fault => fault.split(" ").slice(2).join(" "));
    return `node ${torus.show(what.node)}${pes ? ` · PE ${pes.slice(0, 6).join(", ")}${more}` : ""}${member && member.transit ? " · transit node" : ""}${faults.length ? ` · ${faults.join(", ")}` : ""}`;
  }
  const name = `${torus.show(nodeOf(what.link))} ${DIRECTIONS[directionOf(what.link)]}`;
  const faults = store.faults.filter(fault => fault.startsWith(`link ${name} `)).map(fault => fault.split(" ").slice(3).join(" "));
  return `${name} · ${store.down.has(what.link) ? "down" : view.said(what.link)}${faults.length ? ` · ${faults.join(", ")}` : ""}`;
}

function hover(view, [x, y]) {
  const what = view.pick(x, y), tip = element("tip");
  view.hover = what;
  view.dirty = true;
  tip.hidden = !what;
  if (!what) return;
  tip.textContent = described(view, what);
  tip.style.left = `${Math.max(0, Math.min(x + 14, view.canvas.clientWidth - 220))}px`;
  tip.style.top = `${y + 16}px`;
}

/** Turns it; a map moves instead. */
function turn(view, yaw, pitch) {
  if (view.isMap) view.pan = [view.pan[0] - yaw * 500, view.pan[1] - pitch * 500];
  if (view.isMap) return (view.dirty = true);
  view.yaw += yaw;
  view.pitch = Math.max(-1.5, Math.min(1.5, view.pitch + pitch));
  view.dirty = true;
}

function nearer(view, factor) {
  view.zoom = Math.max(0.4, Math.min(30, view.zoom * factor));
  view.dirty = true;
}

/** The next of what links can show. */
function nextMeasure(view) {
  const all = [...document.querySelectorAll("[name=measure]")].filter(one => !one.closest("[hidden]"));
  const next = all[(all.findIndex(one => one.value === view.measure) + 1) % all.length];
  if (next) next.click();
}

export function mouse(canvas, view, choose) {
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
    } else if (view.isMap || event.shiftKey || event.buttons === 2) {
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
    view.moved();
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => { view.hover = null; element("tip").hidden = true; view.dirty = true; });
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    nearer(view, Math.exp(-event.deltaY * 0.0012));
    view.moved();
  }, { passive: false });
}

export function keys(view, panel, player, choose) {
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
    h: () => { const [link] = view.hottest(1); if (link !== undefined) choose({ kind: "link", link }); },
    m: () => nextMeasure(view), r: () => element("hold").click(),
    d: () => { const other = document.querySelector("[name=measure][value=difference]"); if (!other.closest("[hidden]")) other.click(); },
    v: () => view.lay(view.isMap ? "torus" : "map"),
    t: () => element("theme").click(), "?": () => element("keys").showModal(),
    " ": () => player.toggle(), ",": () => player.step(-1), ".": () => player.step(1), l: () => player.leave(),
    "/": () => element("words").focus(),
  };
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || element("keys").open) return;
    const { target } = event;
    // Who types, or moves a slider, or presses a button, means that.
    if (target === element("words") || target instanceof HTMLSelectElement) return;
    if (target instanceof HTMLInputElement && event.key.startsWith("Arrow")) return;
    if (event.key === " " && target !== document.body && target !== view.canvas) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key >= "1" && key <= "8" && view.chosen) {
      const node = view.chosen.kind === "node" ? view.chosen.node : nodeOf(view.chosen.link);
      if (torus.neighbour(node, key - 1) >= 0) choose({ kind: "link", link: linkOf(node, key - 1) });
    } else if (Object.hasOwn(press, key)) {
      press[key]();
      view.moved();
    } else {
      return;
    }
    event.preventDefault();
  });
}
