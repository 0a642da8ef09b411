// Faults by hand: what is in force, where it comes from, what undoes it, and a form for more.

import { DIRECTIONS, directionOf, nodeOf } from "./torus.js";
import { make } from "./panel.js";
import { short, seconds } from "./chart.js";

/** Milliseconds between two looks at what faults do, while there are some. */
const FAULTS_AGAIN = 1000;
/** Faults in the list. */
const LISTED = 40;
/** Nodes that one order takes down. */
const NODES_AT_ONCE = 64;
/** What a fault can be about, and how that is written. */
const FAULT_PLACES = [["link", "a link", "0,0,0 +X"], ["node", "a node", "0,0,0"], ["every", "every link", ""], ["host", "all nodes of a host", ""], ["trunk", "a trunk", ""]];
const BY = { start: "when the daemon started", page: "from a page", network: "by the network itself", "other host": "on another host" };

export class Faults {
  constructor(panel, from, network, choose) {
    Object.assign(this, { panel, from, network, choose, view: panel.view });
    this.rows = null;
    this.kinds = null;
    this.seen = null;
    this.message = "";
    // What is asked before it is done: commands, and why.
    this.asked = null;
    if (from.finished) return;
    this.refresh();
    setInterval(() => {
      const { faults, replayed } = panel.store;
      if (!document.hidden && !replayed && (faults.length || (this.rows || []).length)) this.refresh();
    }, FAULTS_AGAIN);
  }

  async refresh() {
    try {
      const answer = await this.from.faults();
      [this.rows, this.now, this.more] = [answer.faults, answer.now, answer.more];
      if (!this.kinds) this.form(answer.kinds);
    } catch {
      // It is asked again in a moment.
    }
    if (!this.panel.held) this.show();
  }

  /** The list. Of the past only the names are known. */
  show() {
    const { store } = this.panel, may = this.from.control && !store.replayed;
    if (this.from.finished || store.replayed) return this.panel.fill("faults", "Faults", ...store.faults.slice(0, LISTED).map(fault => make("p", {}, fault)));
    // New ones are asked about at once.
    if (this.seen !== store.faults.join("\n")) {
      this.seen = store.faults.join("\n");
      if (this.rows) this.refresh();
    }
    const rows = this.rows || [], list = rows.slice(0, LISTED).map(row => this.row(row, may));
    const rest = rows.length - list.length + (this.more || 0);
    if (rest > 0) list.push(make("p", { class: "soft" }, `and ${rest} more`));
    if (this.message) list.push(make("p", { class: "bad message", role: "alert" }, this.message));
    if (may && rows.length > 1) list.push(make("div", { class: "row" }, this.button("Undo all of them", ["all clear"], "all clear")));
    const focus = document.activeElement && document.activeElement.dataset.key;
    if (list.length) this.panel.fill("faults", "Faults", ...list);
    else this.panel.fill("faults", "");
    if (focus && !document.activeElement.dataset.key) this.panel.focus(focus);
  }

  row(row, may) {
    const who = row.by === "command" ? `by a command of user ${row.uid}` : BY[row.by] || "";
    const when = row.coming ? "is still to come; set" : `for ${seconds(Math.max(0, this.now - row.since))}, set`;
    const { did } = row, told = [];
    if (did) {
      const counted = [["CRC errors", did.crc_errors], ["replays", did.replays], ["came twice", did.duplicates], ["overtaken", did.overtaken]];
      for (const [name, count] of counted) if (count) told.push(`${short(count)} ${name}`);
      if (!told.length) told.push("nothing yet");
    }
    const label = row.coming ? "Take back" : "Undo";
    return make("div", { class: "fault" },
      make("p", {}, this.site(row.fault)),
      make("p", { class: "soft" }, `${when} ${who}`),
      told.length ? make("p", { class: "soft" }, `on its ${row.fault.startsWith("trunk ") ? "trunk" : "links"} since: ${told.join(", ")}`) : null,
      may ? this.button(label, [row.undo], `undo ${row.fault}`) : null);
  }

  /** A fault, which leads to its place. */
  site(fault) {
    const [kind, place, direction] = fault.split(" "), { torus } = this.panel, node = kind === "link" || kind === "node" ? torus.nodeAt(place) : -1;
    if (node < 0) return fault;
    const way = DIRECTIONS.indexOf(direction), isLink = kind === "link" && way >= 0 && torus.neighbour(node, way) >= 0;
    if (kind === "link" && !isLink) return fault;
    const press = () => this.choose(isLink ? { kind: "link", link: 8 * node + way } : { kind: "node", node });
    return make("button", { class: "link", type: "button", "data-key": `at ${fault}`, onclick: press }, fault);
  }

  button(label, specs, key) {
    return make("button", { type: "button", "data-key": key, "data-spec": specs[0], onclick: () => this.send(specs, true) }, label);
  }

  /** Has the daemon do all of them; stops at the first that it refuses. */
  async send(specs, undone = false) {
    this.message = "";
    let done = 0;
    try {
      for (; done < specs.length; done++) await this.from.fault(specs[done]);
    } catch (refused) {
      this.message = specs.length > 1 ? `${done} of ${specs.length} done, then: ${refused.message}` : refused.message;
    }
    await this.refresh();
    // What another page has undone before is undone.
    if (undone && !this.rows.some(row => specs.includes(row.undo))) this.message = "";
    this.show();
    return !this.message;
  }

  /** The form, of what the daemon understands. It is made once, so that nothing typed is lost. */
  form(kinds) {
    this.kinds = kinds;
    if (!this.from.control) return;
    const hosts = this.network.owners.length ? this.network.hosts : [], others = hosts.filter((_, i) => i !== this.network.here);
    const places = FAULT_PLACES.filter(([kind]) => (kind !== "host" && kind !== "trunk") || hosts.length > 1);
    const option = text => make("option", { value: text }, text);
    const kind = make("select", { id: "fault-kind", "aria-label": "What fails" }, ...places.map(([value, text]) => make("option", { value }, text)));
    const where = make("input", { id: "fault-place", type: "text", maxlength: "60", autocomplete: "off", spellcheck: "false", "aria-label": "Which one" });
    const host = make("select", { id: "fault-host", "aria-label": "Which host" });
    const down = make("input", { type: "checkbox", id: "fault-down" });
    const settings = kinds.map(({ name, example, does }) => [name, make("input", { type: "text", id: `fault-${name}`, size: "6", maxlength: "24", placeholder: example, autocomplete: "off", title: does })]);
    const after = make("input", { type: "text", id: "fault-after", size: "6", maxlength: "24", placeholder: "2ms", autocomplete: "off", title: "how long after it is set it begins; before a job, after the job's start" });
    const says = make("output", { class: "soft", id: "fault-says" }), asks = make("div", { id: "fault-asks", role: "alert" });
    Object.assign(this, { inputs: { kind, where, host, down, after }, settings, says, asks });
    const label = (text, input) => make("label", { class: "tick" }, input, make("span", {}, text));
    const put = () => {
      const { value } = kind;
      where.hidden = value !== "link" && value !== "node";
      where.placeholder = FAULT_PLACES.find(([name]) => name === value)[2];
      host.hidden = value !== "host" && value !== "trunk";
      if (host.dataset.of !== value) host.replaceChildren(...(value === "trunk" ? [...others, "all"] : hosts).map(option));
      host.dataset.of = value;
      down.parentElement.hidden = value === "every";
      after.parentElement.hidden = value === "trunk";
      for (const [, input] of this.settings) input.parentElement.hidden = value === "host";
      this.changed();
    };
    const form = make("form", { id: "fault-form" },
      make("div", { class: "row" }, kind, where, host),
      make("div", { class: "settings" }, label("down", down), ...settings.map(([name, input]) => make("label", {}, make("span", {}, name), input)), make("label", {}, make("span", {}, "begins after"), after)),
      says, make("div", { class: "row" }, make("button", { type: "submit", class: "bad", id: "fault-set" }, "Set")), asks);
    form.addEventListener("input", put);
    form.addEventListener("submit", event => { event.preventDefault(); this.order(); });
    document.getElementById("setting").replaceChildren(make("details", {}, make("summary", {}, "Set a fault"), form));
    this.where = "";
    this.chosen();
    put();
  }

  /** What was chosen in the picture is what the form is about, unless something else was typed. */
  chosen() {
    const { chosen } = this.view;
    if (!chosen || !this.inputs || this.inputs.where.value !== this.where) return;
    const { kind, where } = this.inputs, at = this.panel.torus.show(chosen.kind === "link" ? nodeOf(chosen.link) : chosen.node);
    const now = chosen.kind === "link" ? `${at} ${DIRECTIONS[directionOf(chosen.link)]}` : at;
    if (now === this.where && this.about === chosen.kind) return;
    [this.where, this.about] = [now, chosen.kind];
    [kind.value, where.value] = [chosen.kind, this.where];
    kind.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** The commands that the form means. */
  commands() {
    const { kind, where, host, down, after } = this.inputs, { value } = kind, words = down.checked && value !== "every" ? ["down"] : [];
    if (value !== "host") for (const [name, input] of this.settings) if (input.value.trim()) words.push(`${name}=${input.value.trim()}`);
    const delay = value !== "trunk" && after.value.trim() ? ` @${after.value.trim().replace(/^@/, "")}` : "";
    const one = place => `${place} ${words.join(" ")}${delay}`.trim();
    if (value === "every") return [one("every link")];
    if (value === "trunk") return [one(`trunk ${host.value}`)];
    if (value !== "host") return [one(`${value} ${where.value.trim()}`)];
    const at = this.network.hosts.indexOf(host.value), nodes = [...this.network.owners.keys()].filter(node => this.network.owners[node] === at);
    return nodes.map(node => one(`node ${this.panel.torus.show(node)}`));
  }

  changed() {
    this.asked = null;
    this.asks.replaceChildren();
    const commands = this.commands();
    this.says.textContent = commands.length > 1 ? `${commands[0]}, and so on: ${commands.length} nodes` : commands[0] || "";
  }

  /** Sets what the form says; what ends jobs is asked about first. */
  async order() {
    const commands = this.commands(), said = text => this.asks.replaceChildren(make("p", { class: "bad message" }, text));
    if (commands.length > NODES_AT_ONCE) return said(`That host has ${commands.length} nodes, and a page takes down at most ${NODES_AT_ONCE} at once.`);
    const danger = this.danger(commands);
    if (danger && this.asked !== commands.join("\n")) {
      this.asked = commands.join("\n");
      const yes = make("button", { type: "button", class: "bad", id: "fault-yes", onclick: () => this.order() }, "Do it");
      const no = make("button", { type: "button", id: "fault-no", onclick: () => this.changed() }, "Leave it");
      this.asks.replaceChildren(make("p", { class: "bad message" }, danger), make("div", { class: "row" }, yes, no));
      return no.focus();
    }
    this.changed();
    if (!(await this.send(commands))) said(this.message);
  }

  /** Why commands may end jobs, if they may. */
  danger(commands) {
    const words = commands.flatMap(command => command.split(/\s+/)), { kind } = this.inputs;
    const total = words.some(word => /^(corrupt|drop)=(1|1\.0*|100%|1000000ppm)$/.test(word));
    if (!words.includes("down") && !total) return null;
    const where = commands.map(command => command.split(/\s+/)).filter(one => one[0] === "node").map(one => this.panel.torus.nodeAt(one[1]));
    const ends = this.ends(where);
    if (ends) return ends;
    const jobs = this.panel.store.jobs.some(job => !job.ended);
    if (kind.value === "trunk") return "Hosts that cannot reach each other leave the network, and that ends jobs with PEs on both.";
    if (!jobs && kind.value !== "node" && kind.value !== "host") return null;
    if (kind.value === "node" || kind.value === "host") return total ? "No packet passes. Jobs whose packets cannot go another way end." : null;
    return total ? "No packet passes. Jobs whose packets cannot go another way end." : "Jobs whose packets cannot go another way end.";
  }

  /** Which jobs end if these nodes go down. */
  ends(nodes) {
    const jobs = new Map();
    for (const node of nodes) for (const { job, pes } of this.panel.store.pesOn(node)) if (!job.ended) jobs.set(job, [...(jobs.get(job) || []), ...pes]);
    const said = [...jobs].map(([job, pes]) => `job ${job.job}, ${job.name}, with PE ${pes.slice(0, 8).join(", ")}${pes.length > 8 ? ", …" : ""} there`);
    return said.length ? `This ends ${said.join("; ")}.` : null;
  }
}
