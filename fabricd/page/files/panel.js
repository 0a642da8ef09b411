// What stands beside the picture: what was chosen, and lists of everything.

import { DIRECTIONS, directionOf, linkOf, nodeOf } from "./torus.js";
import { named } from "./colours.js";
import { percent } from "./legend.js";
import { short, inBytes, inTime, seconds, drawChart } from "./chart.js";

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
  // A column that explains itself has no head; to whoever hears the page, an empty one would be a riddle.
  const isBare = text => text === "" || text === ">";
  const top = head.every(isBare) ? null : make("thead", {}, make("tr", {}, ...head.map((text, i) => cell(isBare(text) ? "td" : "th", text.replace(/^>/, ""), i))));
  return make("table", {}, top, make("tbody", {}, ...list.map(row => make("tr", {}, ...row.map((text, i) => cell("td", text, i))))));
}

/** Seconds of the present that charts show. */
const SHOWN = 120;
/** Milliseconds in which what would break something must be pressed again. */
const SURE = 4000;

export class Panel {
  constructor(view, store, from, network, past, choose) {
    Object.assign(this, { view, store, from, network, past, choose });
    this.player = null;
    // Lists with files of their own.
    this.lists = [];
    this.sure = null;
    this.over = false;
    this.list = [];
    const traffic = document.getElementById("traffic");
    traffic.addEventListener("pointerenter", () => { this.over = true; });
    traffic.addEventListener("pointerleave", () => { this.over = false; });
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
    for (const list of this.lists) list.show();
    this.showCollectives();
    this.showTrunks();
    this.showPlane();
    if (focus) this.focus(focus);
  }

  /** A chart over what is known: of the part that is played, or of the last moments. */
  chart(canvas, values, unit) {
    const { player, past, view } = this, colour = view.scale[Math.floor(view.scale.length * 0.7)];
    const at = player ? player.at : null;
    if (at !== null) return drawChart(canvas, values, [player.start, player.end], { colours: view.colours, colour, unit, at, last: seconds(player.end - player.start) });
    const all = past.range();
    const whole = past.isVirtual || this.from.finished;
    const last = whole ? all[1] : this.store.t, first = whole ? all[0] : last - SHOWN;
    drawChart(canvas, values, [first, last], { colours: view.colours, colour, unit, last: whole ? seconds(last - first) : "now" });
  }

  /** Whether it is known what links carried when. */
  get timed() {
    return !this.from.finished || this.from.played;
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
    for (const list of this.lists) if (list.chosen) list.chosen();
    if (!chosen) return this.fill("chosen", "");
    if (chosen.kind === "link") this.showLink(chosen.link);
    else this.showNode(chosen.node);
  }

  /** Has the daemon do it. */
  async send(spec) {
    this.message = "…";
    this.showChosen();
    try {
      await this.from.fault(spec);
      this.message = "";
    } catch (refused) {
      this.message = refused.message;
    }
    this.showChosen();
    for (const list of this.lists) list.show();
  }

  /** A button; of what breaks something, it asks once more, and says what it `ends`. */
  order(label, spec, breaks = false, ends = "") {
    const asks = breaks && this.sure === spec;
    const press = () => {
      if (!breaks || asks) {
        this.sure = null;
        return this.send(spec);
      }
      this.sure = spec;
      setTimeout(() => {
        if (this.sure === spec) this.sure = null;
        this.showChosen();
      }, SURE);
      this.showChosen();
      this.focus(spec);
    };
    return make("button", { type: "button", class: breaks ? "bad" : undefined, "data-key": spec, "data-spec": spec, onclick: press }, asks ? `${label}: press again${ends ? `. ${ends}` : ""}` : label);
  }

  focus(key) {
    const again = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (again) again.focus();
  }

  orders(...buttons) {
    if (this.from.finished || this.store.replayed) return null;
    if (!this.from.control) return make("p", { class: "soft message" }, "To set faults, open the URL that `angara web --faults` prints.");
    return make("div", {}, make("div", { class: "row" }, ...buttons), this.message ? make("p", { class: "bad message", role: "alert" }, this.message) : null);
  }

  showLink(link) {
    const { store, torus } = this, to = torus.neighbour(nodeOf(link), directionOf(link)), site = `link ${this.linkName(link)}`;
    const errors = store.errors.get(link) || [0, 0, 0, 0], down = store.down.has(link);
    const sums = this.from.finished && !store.replayed, nowToo = !this.from.finished && !store.replayed;
    const figures = [["flits", short(store.flits[link]), sums ? "" : `${short(store.rate[link])}/s`]];
    if (!sums) figures.push(["of the link's rate", "", percent(store.rate[link] / this.view.gauge.full)]);
    if (!store.replayed) {
      figures.push(["packets", short(store.packets[link]), ""], ["payload", inBytes(store.bytes[link]), nowToo ? `${inBytes(store.byteRate[link])}/s` : ""]);
      figures.push(["CRC errors", short(errors[0]), ""], ["replays", short(errors[1]), ""]);
    }
    const { classes, channels } = (!store.replayed && this.details.get(link)) || { classes: [], channels: [] };
    const kinds = classes.filter(row => row.load.flits > 0).map(row => [row.class, short(row.load.packets), short(row.load.flits), inBytes(row.load.bytes)]);
    const lanes = channels.map(row => [row.vc, `${row.slots} of ${row.of}`, short(row.packets), short(row.flits)]);
    const faults = this.faultsOf(site), compared = this.view.comparison && this.view.comparison.rows(link);
    const chart = make("canvas", { class: "chart" });
    this.fill("chosen", "Link",
      make("p", { class: "big" }, `${this.linkName(link)} → `, this.nodeButton(to)),
      make("p", { class: down ? "bad" : "soft" }, down ? "down" : faults.length ? `up, with ${faults.join(", ")}` : "up"),
      rows(["", store.replayed ? ">so far" : ">total", store.replayed ? ">then" : ">now"], figures),
      compared ? rows(["compared with the reference", ">"], compared) : null,
      this.timed ? chart : null,
      lanes.length ? rows(["channel", ">slots in use", ">packets", ">flits"], lanes) : null,
      kinds.length ? rows(["class", ">packets", ">flits", ">payload"], kinds) : null,
      make("p", { class: "soft" }, "back: ", this.linkButton(torus.opposite(link))),
      this.orders(
        down ? this.order("Mend", `${site} up`) : this.order("Cut the cable", `${site} down`, true),
        this.order("Corrupt 1 %", `${site} corrupt=1%`, true),
        faults.length ? this.order("Clear", `${site} clear`) : null,
      ));
    if (this.timed) this.chart(chart, this.past.of(link), "flits/s");
  }

  showNode(node) {
    const { store, torus } = this, site = `node ${torus.show(node)}`;
    const links = DIRECTIONS.map((_, d) => linkOf(node, d)).filter(link => torus.neighbour(node, directionOf(link)) >= 0);
    const list = links.map(link => {
      const down = store.down.has(link) ? make("span", { class: "bad" }, "down") : null;
      return [this.linkButton(link), down || this.carried(link), this.carried(torus.opposite(link))];
    });
    const pes = store.pesOn(node).map(({ job, pes }) => make("p", {}, swatch(named(job.job)), `job ${job.job}, ${job.name}: PE ${pes.slice(0, 64).join(", ")}${pes.length > 64 ? ` and ${pes.length - 64} more` : ""}`));
    const member = this.view.setOf && this.view.setOf.get(node), whose = member && store.jobs.find(job => job.job === member.job);
    const set = whose ? make("p", {}, swatch(named(member.job)), `${member.transit ? "transit node of" : "in"} the set of job ${member.job}, ${whose.name}`) : null;
    const host = this.network.owners.length ? this.network.hosts[this.network.owners[node]] : this.network.hosts[0];
    const dead = links.length > 0 && links.every(link => store.down.has(link));
    this.fill("chosen", "Node",
      make("p", { class: "big" }, torus.show(node)),
      dead ? make("p", { class: "bad" }, "out of service") : null,
      make("p", { class: "soft" }, `node ${node}${host ? ` of ${host}` : ""}${store.barriers[node] ? ` · ${short(store.barriers[node])} barriers, the latest in ${store.phases[node]} phases` : ""}`),
      set,
      ...pes,
      rows(["link", ">out", ">in"], list),
      this.orders(
        dead ? this.order("Bring it back", `${site} up`) : this.order("Take it down", `${site} down`, true, this.ends ? this.ends([node]) : ""),
        this.order("Drop 1 %", `${site} drop=1%`, true),
        this.faultsOf(site).length ? this.order("Clear", `${site} clear`) : null,
      ));
  }

  faultsOf(site) {
    return this.store.faults.filter(fault => fault.startsWith(`${site} `)).map(fault => fault.slice(site.length + 1));
  }

  /** What a link carries, in the unit that was chosen. */
  carried(link) {
    return this.view.said(link);
  }

  showTraffic() {
    const { store, view } = this, finished = this.from.finished, total = view.measure === "total", differs = view.measure === "difference";
    // While the mouse is here, no row moves away from under it.
    if (!this.over || !this.list.length || this.listed !== `${view.measure} ${store.replayed}`) this.list = view.hottest(6);
    this.listed = `${view.measure} ${store.replayed}`;
    const list = this.list.map(link => [this.linkButton(link), this.carried(link), differs ? view.gauge.amount(view.comparison.reference.flits[link]) : store.replayed ? short(view.value(link)) : total ? inBytes(store.bytes[link]) : `${inBytes(store.byteRate[link])}/s`]);
    const chart = make("canvas", { class: "chart", role: "img", "aria-label": "Bytes a second on all links over time" });
    const none = differs ? "No link differs." : total || (finished && !store.replayed) ? "No link has carried anything." : store.replayed ? "No link carries anything at this moment." : "No link carries anything now.";
    this.fill("traffic", differs ? "Links that differ most" : total ? "Links that carried most" : store.replayed ? "Links that carry most, then" : "Links that carry most",
      list.length ? rows(["link", differs ? ">difference" : total ? ">carried" : ">load", differs ? ">reference" : store.replayed ? ">flits/s" : ">payload"], list) : make("p", { class: "soft" }, none),
      this.timed ? chart : null);
    if (this.timed) this.chart(chart, this.past.totals(), "B/s on all links");
  }

  showJobs() {
    const { jobs, replayed } = this.store, { finished } = this.from;
    const ended = finished || replayed ? [] : this.past.jobs.filter(job => job.to !== null && !jobs.some(one => one.job === job.job)).slice(-5).reverse();
    if (!jobs.length && !ended.length) return this.fill("jobs", "Jobs", make("p", { class: "soft" }, replayed ? "No job ran." : "No job runs."));
    const number = job => make("span", {}, swatch(named(job.job)), finished ? "" : `${job.job}`);
    const pes = job => (job.ended ? `${job.pes}, ended` : job.attached === job.pes ? `${job.pes}` : `${job.attached} of ${job.pes}`);
    const lasted = job => {
      const known = job.ended && this.past.jobs.find(one => one.job === job.job);
      return seconds(known && known.to !== null ? known.to - known.from : finished ? job.age_s : Math.round(job.age_s));
    };
    const list = jobs.map(job => [number(job), job.name, finished ? "" : `${job.uid}`, lasted(job), pes(job)]);
    const gone = ended.map(job => [number(job), job.name, `${job.uid}`, seconds(job.to - job.from), `${job.pes}, ended`]);
    const set = job => job.set && make("p", { class: "soft" }, `${finished ? "" : `job ${job.job}: `}${job.set.nodes}${job.set.transit ? ` + ${job.set.transit} transit` : ""} nodes of its own`);
    const paths = jobs.filter(job => job.path).map(job => `${finished ? "" : `${job.job}: `}${job.path}`).join(", ");
    const children = [rows(["job", "name", finished ? "" : ">user", finished ? ">lasted" : ">age", ">PEs"], [...list, ...gone]), ...jobs.map(set)];
    if (paths) children.push(make("p", { class: "soft" }, `path ${paths}`));
    if (jobs.some(job => job.attached === job.pes) && finished) children.push(make("p", { class: "soft" }, `${jobs[0].pes} PEs`));
    this.fill("jobs", finished ? "Job" : replayed ? "Jobs, then" : "Jobs", ...children.filter(Boolean));
  }

  showCollectives() {
    const { store } = this;
    const colours = this.view.phaseColours(), kinds = new Map([...colours.keys()].map(phases => [phases, { nodes: 0, left: 0 }]));
    store.barriers.forEach((count, node) => {
      const kind = count ? kinds.get(store.phases[node]) : null;
      if (kind) [kind.nodes, kind.left] = [kind.nodes + 1, kind.left + count];
    });
    const list = store.trees.map(tree => [make("span", {}, swatch(named(tree.tree + 2)), `tree ${tree.tree}`), tree.root === null ? "elsewhere" : this.nodeButton(tree.root), `${tree.up.length + 1}`, short(tree.results), short(tree.broadcasts)]);
    const children = [];
    const latest = [...kinds].map(([phases, { nodes, left }]) => [make("span", {}, swatch(colours.get(phases)), phases ? `${phases}` : "none"), short(nodes), short(left)]);
    if (latest.length) children.push(rows(["phases of the latest barrier", ">nodes", ">barriers left"], latest));
    if (list.length) children.push(rows(["tree", "root", ">nodes", ">sums", ">broadcasts"], list));
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
    if (!plane || this.from.finished || this.store.replayed) return this.fill("plane", "");
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
