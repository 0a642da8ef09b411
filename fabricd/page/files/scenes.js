// Guided scenes of `angara demo --web`: what each shows, and what there is to ask.

import { make } from "./panel.js";
import { apply, find } from "./place.js";

/** Milliseconds between two looks at what is played. */
const LOOKS = 700;
const FLAT = [-0.25, 0.12, 1, 0, 0];

/**
 * The scenes, on a torus of 5x3 with PE x + 5y at node x,y. `look` is what the picture shows, as an address says it. `tries`
 * are faults that a reader may set and take back.
 */
export const SCENES = [
  {
    name: "direction-order",
    title: "Direction order and direction bits",
    text: [
      "A packet's header has a bit for each direction that it has still to go, and every router takes the first of them in one fixed order: +X +Y +Z +W −X −Y −Z −W.",
      "PE 0 at 0,0 sends to 1,1, which is +X and +Y away, so its packets turn at 1,0; PE 8 at 3,1 sends to 2,2, which is −X and +Y away, and since +Y comes before −X, its packets go by 3,2.",
      "The faint links belong to the reads behind each block, which find out that it has arrived, and to their answers.",
    ],
    question: "By which node do the answers go from 1,1 back to 0,0?",
    answer: "By 0,1. They have −X and −Y to go, and −X comes first: the way back is not the way there. Choose the link 1,1 −X to see it.",
    look: { at: "0,0 +X" },
    tries: [],
  },
  {
    name: "bubble-rule",
    title: "The bubble rule",
    text: [
      "The five PEs of the row y = 0 all send two nodes on towards +X, so every cable of this ring carries packets that enter it and packets that go on.",
      "If every buffer of the ring were full, each packet would wait for the next one, for ever.",
      "So a packet may go on along the ring into the last free slot of the next buffer, but one that enters the ring needs two: one slot, the bubble, always stays free, and something can move; buffers fill and empty too fast to be seen here, but the ring stays busy.",
    ],
    question: "Cut the link 0,0 +X. What keeps the packets of this row from waiting for each other now?",
    answer: "The row ends there, and a row that ends cannot wait for itself: the last packet of it can always move on. Those that went over the cable take the long way by −X.",
    look: { at: "0,0 +X" },
    tries: [["cut 0,0 +X", "link 0,0 +X down", "link 0,0 +X up"]],
  },
  {
    name: "adaptive-routing",
    title: "Adaptive routing around a hot link",
    text: [
      "PE 4 sends all it can from 4,0 over 0,0 to 1,0, which makes the link 0,0 +X hot.",
      "PE 0 sends to 2,1 on the adaptive channel, where each packet takes, of all outputs on a shortest way, the one with most room ahead of it.",
      "So a part of its packets goes +Y first, by 0,1, and a part turns at 1,0, neither of which direction order would do.",
    ],
    question: "What will PE 0's packets do when you cut a cable that none of them uses, such as 3,2 +X?",
    answer: "They all go by 0,0 +X again, and 0,0 +Y falls idle. While anything in the network is dead, adaptive packets travel on their fixed routes: those are known to keep clear of it, and not to deadlock.",
    look: { at: "0,0 +Y" },
    tries: [["cut 3,2 +X", "link 3,2 +X down", "link 3,2 +X up"]],
  },
  {
    name: "dead-link",
    title: "A dead link and its new tables",
    text: [
      "PE 0 at 0,0 sends to PE 2 at 2,0, two hops along +X.",
      "When you cut the link 0,0 +X, packets whose route it blocks go back to the queue of their source, every node gets a new table, and no packet is lost or overtaken.",
      "The new route is the shortest one that is left among those that a table can hold: three hops along −X.",
    ],
    question: "Cut 0,0 −X as well. There is a way of four hops: +Y +X +X −Y. Why do the packets take five?",
    answer: "They take +Y −X −X −X −Y, which keeps direction order. In the shorter one +X follows +Y, and a route that breaks the order is taken only if there is no other, because it could close a circle of rings that wait for each other.",
    look: { at: "0,0 +X" },
    tries: [["cut 0,0 +X", "link 0,0 +X down", "link 0,0 +X up"], ["cut 0,0 −X", "link 0,0 -X down", "link 0,0 -X up"]],
  },
  {
    name: "barrier",
    title: "The multiphase barrier",
    text: [
      "All PEs enter a barrier again and again, and no PE sends anything: in each phase every adapter sends one special packet over each of its links, and waits for one from each neighbour.",
      "A special overtakes nothing on a link, so after as many phases as the longest route has hops, everybody has been heard of, and all that was sent has arrived.",
      "A full barrier does it twice, the second time behind the answers; a ring grows around a node when it leaves.",
    ],
    question: "The farthest nodes of this torus are 3 hops apart, so a full barrier has 6 phases. What does a cut cable change?",
    answer: "Cut it, and choose a node: the longest route has 5 hops then, and the barrier 10 phases. They go over the links that are left.",
    look: { paint: "barriers", at: "2,1" },
    tries: [["cut 0,0 +X", "link 0,0 +X down", "link 0,0 +X up"]],
  },
  {
    name: "trees",
    title: "Broadcast and reduce trees",
    text: [
      "A tree is loaded into the adapters, with its root at 2,1: broken lines lead to it, and when you cut one of its links, it moves to others.",
      "For a sum, each node adds what comes from its children to its own and sends one packet on to the root; the result goes down the same links.",
      "A broadcast goes down, too, and each router copies the packet, so that every link of the tree carries it once.",
    ],
    question: "15 PEs take part. How many packets must cross links for one sum whose result all get, if it fits into a packet?",
    answer: "28: a tree of 15 nodes has 14 links, and each carries one packet up and one down. With puts to the root and back, the farther nodes would use 2 or 3 links each.",
    look: { trees: true, at: "2,1" },
    tries: [["cut 2,1 +X", "link 2,1 +X down", "link 2,1 +X up"]],
  },
];

/** The list beside the picture. It stays away where nobody plays scenes. */
export class Scenes {
  constructor(view, panel, player, network, from, choose) {
    Object.assign(this, { view, panel, player, network, from, choose });
    this.at = document.getElementById("scenes");
    this.scene = null;
    this.board = { offered: false, playing: null, note: "" };
    this.message = "";
    this.shown = "";
  }

  /** Asks whether scenes are played here, and looks on if so. */
  async begin() {
    if (this.from.finished || !await this.look() || !this.board.offered) return;
    this.known(this.board.wanted);
    this.show();
    setInterval(async () => { if (await this.look()) this.show(); }, LOOKS);
  }

  async look() {
    try {
      this.board = JSON.parse(await this.from.get("/api/scene"));
      if (this.board.wanted && (!this.scene || this.board.wanted !== this.scene.name)) this.known(this.board.wanted);
      return true;
    } catch {
      return false;
    }
  }

  /** Shows what somebody wants, here or in another tab. */
  known(name) {
    const scene = SCENES.find(one => one.name === name);
    if (!scene) return;
    this.scene = scene;
    this.player.leave();
    const trees = document.getElementById("trees");
    if (trees.checked !== Boolean(scene.look.trees)) trees.click();
    apply({ measure: "now", paint: scene.look.paint || "jobs", camera: FLAT }, this.view, this.player, this.network);
    this.choose(find(scene.look.at, this.view, this.network));
    this.shown = "";
  }

  async want(scene) {
    this.message = "";
    try {
      // Each scene begins on a sound network.
      if (this.view.store.faults.length) await this.from.fault("all clear");
      this.board = JSON.parse(await this.from.post("/api/scene", { wanted: scene.name }));
      this.known(scene.name);
    } catch (refused) {
      this.message = refused.message;
    }
    this.show();
  }

  set(spec) {
    return this.view.store.faults.includes(spec);
  }

  async toggle(spec, undo) {
    this.message = "";
    try {
      await this.from.fault(this.set(spec) ? undo : spec);
    } catch (refused) {
      this.message = refused.message;
    }
    this.show();
  }

  /** Anew, if something of it has changed. */
  show() {
    const { board, scene } = this, faults = scene ? scene.tries.map(([, spec]) => this.set(spec)) : [];
    const now = JSON.stringify([scene && scene.name, board.offered, board.playing, board.note, this.message, faults]);
    if (this.shown === now || this.panel.held) return;
    const open = scene && this.at.dataset.scene === scene.name && this.at.querySelector("details")?.open;
    this.shown = now;
    this.at.dataset.scene = scene ? scene.name : "";
    this.at.replaceChildren(make("h2", {}, "Scenes"), this.list(), ...(scene ? this.told(scene, open) : [make("p", { class: "soft" }, "Choose one. Each runs on this network, which you may disturb.")]));
    if (!this.from.control) this.at.append(make("p", { class: "soft" }, "To choose, open the URL that `angara demo --web` prints."));
    if (this.message) this.at.append(make("p", { class: "bad message", role: "alert" }, this.message));
  }

  list() {
    const button = scene => {
      const press = () => this.want(scene), chosen = this.scene === scene;
      return make("li", {}, make("button", { class: "link", type: "button", "data-scene": scene.name, "aria-current": chosen ? "true" : undefined, disabled: !this.from.control, onclick: press }, scene.title));
    };
    return make("ol", {}, ...SCENES.map(button));
  }

  told(scene, open) {
    const { board } = this;
    const state = !board.offered ? "`angara demo --web` has ended, and nothing is played." : board.playing !== scene.name ? "It begins in a moment." : board.note;
    const orders = scene.tries.map(([label, spec, undo]) => make("button", { type: "button", "data-try": spec, "aria-pressed": String(this.set(spec)), class: this.set(spec) ? undefined : "bad", disabled: !this.from.control, onclick: () => this.toggle(spec, undo) }, this.set(spec) ? label.replace("cut", "mend") : label));
    return [
      ...scene.text.map(sentence => make("p", {}, sentence)),
      orders.length ? make("div", { class: "row" }, ...orders) : make("p", { class: "soft" }, "Choose a link to cut it, and see what becomes of it."),
      make("details", { open }, make("summary", {}, scene.question), make("p", {}, scene.answer)),
      make("p", { class: "soft", role: "status" }, state),
    ];
  }
}
