// What stands beside the picture: what was chosen, and lists of everything.

import { DIRECTIONS, directionOf, linkOf, nodeOf } from "./torus.js";
import { named } from "./colours.js";
import { short, inBytes, inTime, drawChart } from "./chart.js";

/** An element with attributes, and children that are texts or elements. */
export function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

function swatch(colour) {
  const found = make("span", { class: "swatch" });
  found.style.background = colour;
  return found;
}

function rows(head, list) {
  const cell = (kind, text, i) => make(kind, { class: head[i].startsWith(">") ? "n" : undefined }, text);
  const top = make("tr", {}, ...head.map((text, i) => cell("th", text.replace(/^>/, ""), i)));
  return make("table", {}, make("thead", {}, top), make("tbody", {}, ...list.map(row => make("tr", {}, ...row.map((text, i) => cell("td", text, i))))));
}

export class Panel {
  constructor(view, store, from, network, choose) {
    Object.assign(this, { view, store, from, network, choose });
    this.torus = store.torus;
    this.message = "";
    this.details = new Map();
    this.at = id => document.getElementById(id);
  }

  fill(id, title, ...children) {
    const section = this.at(id);
    if (!children.length) return section.replaceChildren();
    section.replaceChildren(make("h2", {}, title), ...children.filter(child => child !== null));
  }

  /** Everything anew. */
  show() {
    const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
    this.showChosen();
    this.showTraffic();
    this.showJobs();
    this.showFaults();
    this.showCollectives();
    this.showTrunks();
    this.showPlane();
    if (focus) {
      const again = document.querySelector(`[data-key="${CSS.escape(focus)}"]`);
      if (again) again.focus();
    }
  }

  linkName(link) {
    return `${this.torus.show(nodeOf(link))} ${DIRECTIONS[directionOf(link)]}`;
  }

  linkButton(link) {
    const press = () => this.choose({ kind: "link", link });
    return make("button", { class: "link", type: "button", "data-key": `link${link}`, onclick: press }, this.linkName(link));
  }

  nodeButton(node) {
    const press = () => this.choose({ kind: "node", node });
    return make("button", { class: "link", type: "button", "data-key": `node${node}`, onclick: press }, this.torus.show(node));
  }

  showChosen() {
    const chosen = this.view.chosen;
    if (!chosen) return this.fill("chosen", "");
    if (chosen.kind === "link") this.showLink(chosen.link);
    else this.showNode(chosen.node);
  }

  order(label, spec, bad) {
    const send = async () => {
      this.message = "…";
      this.showChosen();
      try {
        await this.from.fault(spec);
        this.message = "";
      } catch (refused) {
        this.message = refused.message;
      }
      this.showChosen();
    };
    return make("button", { type: "button", class: bad ? "bad" : undefined, "data-key": spec, "data-spec": spec, onclick: send }, label);
  }

  orders(...buttons) {
    if (this.from.finished) return null;
    if (!this.from.control) return make("p", { class: "soft message" }, "To set faults, open the URL that `angara web` prints.");
    return make("div", {}, make("div", { class: "row" }, ...buttons), this.message ? make("p", { class: "bad message" }, this.message) : null);
  }

  showLink(link) {
    const { store, torus } = this, to = torus.neighbour(nodeOf(link), directionOf(link)), site = `link ${this.linkName(link)}`;
    const errors = store.errors.get(link) || [0, 0, 0, 0], down = store.down.has(link);
    const figures = [
      ["packets", short(store.packets[link]), ""],
      ["flits", short(store.flits[link]), this.from.finished ? "" : `${short(store.rate[link])}/s`],
      ["payload", inBytes(store.bytes[link]), this.from.finished ? "" : `${inBytes(store.byteRate[link])}/s`],
      ["CRC errors", short(errors[0]), ""],
      ["replays", short(errors[1]), ""],
    ];
    const { classes, channels } = this.details.get(link) || { classes: [], channels: [] };
    const kinds = classes.filter(row => row.load.flits > 0).map(row => [row.class, short(row.load.packets), short(row.load.flits), inBytes(row.load.bytes)]);
    const lanes = channels.map(row => [row.vc, `${row.slots} of ${row.of}`, short(row.packets), short(row.flits)]);
    const faults = this.faultsOf(site);
    const chart = make("canvas", { class: "chart" });
    this.fill("chosen", "Link",
      make("p", { class: "big" }, `${this.linkName(link)} → `, this.nodeButton(to)),
      make("p", { class: down ? "bad" : "soft" }, down ? "down" : faults.length ? `up, with ${faults.join(", ")}` : "up"),
      rows(["", ">total", ">now"], figures),
      this.from.finished ? null : chart,
      lanes.length ? rows(["channel", ">slots in use", ">packets", ">flits"], lanes) : null,
      kinds.length ? rows(["class", ">packets", ">flits", ">payload"], kinds) : null,
      make("p", { class: "soft" }, "back: ", this.linkButton(torus.opposite(link))),
      this.orders(
        down ? this.order("Mend", `${site} up`) : this.order("Cut the cable", `${site} down`, true),
        this.order("Corrupt 1 %", `${site} corrupt=1%`, true),
        faults.length ? this.order("Clear", `${site} clear`) : null,
      ));
    drawChart(chart, store.history(link), this.view.colours, this.view.scale[Math.floor(this.view.scale.length * 0.7)], "flits/s");
  }

  showNode(node) {
    const { store, torus } = this, site = `node ${torus.show(node)}`;
    const links = DIRECTIONS.map((_, d) => linkOf(node, d)).filter(link => torus.neighbour(node, directionOf(link)) >= 0);
    const list = links.map(link => {
      const back = torus.opposite(link);
      const state = store.down.has(link) ? make("span", { class: "bad" }, "down") : this.view.measure === "total" ? short(store.flits[link]) : `${short(store.rate[link])}/s`;
      return [this.linkButton(link), state, this.view.measure === "total" ? short(store.flits[back]) : `${short(store.rate[back])}/s`];
    });
    const pes = store.pesOn(node).map(({ job, pes }) => make("p", {}, swatch(named(job.job)), `${job.name}: PE ${pes.slice(0, 12).join(", ")}${pes.length > 12 ? "…" : ""}`));
    const member = this.view.setOf && this.view.setOf.get(node), whose = member && store.jobs.find(job => job.job === member.job);
    const set = whose ? make("p", {}, swatch(named(member.job)), `${member.transit ? "transit node of" : "in"} the set of job ${member.job}, ${whose.name}`) : null;
    const host = this.network.owners.length ? this.network.hosts[this.network.owners[node]] : this.network.hosts[0];
    const dead = links.length > 0 && links.every(link => store.down.has(link));
    this.fill("chosen", "Node",
      make("p", { class: "big" }, torus.show(node)),
      make("p", { class: "soft" }, `node ${node}${host ? ` of ${host}` : ""}${store.barriers[node] ? ` · ${short(store.barriers[node])} barriers, the latest in ${store.phases[node]} phases` : ""}`),
      set,
      ...pes,
      rows(["link", ">flits out", ">flits in"], list),
      this.orders(
        dead ? this.order("Bring it back", `${site} up`) : this.order("Take it down", `${site} down`, true),
        this.order("Drop 1 %", `${site} drop=1%`, true),
        this.faultsOf(site).length ? this.order("Clear", `${site} clear`) : null,
      ));
  }

  faultsOf(site) {
    return this.store.faults.filter(fault => fault.startsWith(`${site} `)).map(fault => fault.slice(site.length + 1));
  }

  showTraffic() {
    const { store, view } = this, finished = this.from.finished;
    const hot = store.hottest(view.measure, 6);
    const list = hot.map(link => [this.linkButton(link), view.measure === "total" ? short(store.flits[link]) : `${short(store.rate[link])}/s`, view.measure === "total" ? inBytes(store.bytes[link]) : `${inBytes(store.byteRate[link])}/s`]);
    const chart = make("canvas", { class: "chart" });
    this.fill("traffic", view.measure === "total" ? "Links that carried most" : "Links that carry most",
      hot.length ? rows(["link", ">flits", ">payload"], list) : make("p", { class: "soft" }, finished || view.measure === "total" ? "No link has carried anything." : "No link carries anything now."),
      finished ? null : chart);
    drawChart(chart, store.totals, view.colours, view.scale[Math.floor(view.scale.length * 0.7)], "B/s on all links");
  }

  showJobs() {
    const { jobs } = this.store, sets = jobs.some(job => job.set);
    if (!jobs.length) return this.fill("jobs", "Jobs", make("p", { class: "soft" }, "No job runs."));
    const set = job => (job.set ? `${job.set.nodes}${job.set.transit ? ` + ${job.set.transit} transit` : ""}` : "none");
    const list = jobs.map(job => [make("span", {}, swatch(named(job.job)), job.name), job.attached === job.pes ? `${job.pes}` : `${job.attached} of ${job.pes}`, job.path, ...(sets ? [set(job)] : [])]);
    this.fill("jobs", this.from.finished ? "Job" : "Jobs", rows(["job", ">PEs", ">path", ...(sets ? [">nodes of its own"] : [])], list));
  }

  showFaults() {
    const clear = this.from.control && this.store.faults.length ? make("div", { class: "row" }, this.order("Clear all", "all clear")) : null;
    const list = this.store.faults.slice(0, 20).map(fault => make("p", {}, fault));
    if (list.length) this.fill("faults", "Faults", ...list, ...(clear ? [clear] : []));
    else this.fill("faults", "");
  }

  showCollectives() {
    const { store } = this;
    let left = 0, phases = 0;
    store.barriers.forEach((count, node) => { left += count; if (count) phases = Math.max(phases, store.phases[node]); });
    const list = store.trees.map(tree => [make("span", {}, swatch(named(tree.tree + 2)), `tree ${tree.tree}`), tree.root === null ? "elsewhere" : this.nodeButton(tree.root), `${tree.up.length + 1}`, short(tree.results)]);
    const children = [];
    if (left) children.push(make("p", {}, `${short(left)} times a node left a barrier${phases ? `; the latest took up to ${phases} phases` : ""}`));
    if (list.length) children.push(rows(["tree", "root", ">nodes", ">results"], list));
    this.fill("collectives", "Barriers and trees", ...children);
  }

  showTrunks() {
    const { trunks } = this.store;
    if (!trunks) return this.fill("trunks", "");
    const state = peer => (peer.up ? "up" : make("span", { class: "bad" }, "down"));
    const list = trunks.map(peer => [make("span", {}, swatch(named(this.network.hosts.indexOf(peer.host))), peer.host), state(peer), inTime(peer.rtt_us), `${(peer.loss * 100).toFixed(1)} %`, short(peer.replays)]);
    this.fill("trunks", "Trunks", rows(["host", "state", ">round trip", ">loss", ">replays"], list),
      make("p", { class: "soft" }, "Links are those of all hosts. Each host has a page of its own."));
  }

  showPlane() {
    const { plane, planeRate } = this.store;
    if (!plane || this.from.finished) return this.fill("plane", "");
    const list = [
      ["of a core", planeRate ? `${(100 * planeRate.cpu).toFixed(0)} %` : "…"],
      ["network events", planeRate ? `${short(planeRate.events)}/s` : "…"],
      ["packets under way", short(plane.packets)],
      ["channels, waiting for room", `${plane.channels}, ${plane.waiting}`],
      ["violations", short(plane.violations)],
    ];
    this.fill("plane", "Data plane", rows(["", ">"], list));
  }
}
