// Where figures come from: a daemon, or what was recorded of a finished run.

import { directionOf, nodeOf } from "./torus.js";

export class Refused extends Error {}

/** Milliseconds before a stream of events that has ended is asked for again. */
const AGAIN = 3000;

/** A daemon. The token of the URL's fragment is kept for this tab alone, and goes with everything that is asked. */
export class Daemon {
  constructor() {
    this.control = false;
  }

  async open() {
    const said = new URLSearchParams(location.hash.slice(1)), token = said.get("token");
    said.delete("token");
    // What the address says of the view; the token does not stay in it.
    this.place = `${said}`;
    if (token) {
      history.replaceState(null, "", location.pathname + (this.place ? `#${this.place}` : ""));
      sessionStorage.setItem("token", token);
    }
    this.token = sessionStorage.getItem("token");
    const network = JSON.parse(await this.get("/api/network"));
    this.control = network.control;
    return network;
  }

  async get(path) {
    return this.text(await fetch(path, { headers: this.headers() }));
  }

  async post(path, body) {
    return this.text(await fetch(path, { method: "POST", headers: this.headers(), body: JSON.stringify(body) }));
  }

  headers() {
    return this.token ? { Authorization: `Bearer ${this.token}` } : {};
  }

  async text(answer) {
    const text = await answer.text();
    if (!answer.ok) throw new Refused(text.trim() || `${answer.status}`);
    return text;
  }

  /** Calls `take` with events, and `state` when the stream comes and goes. Ends when the daemon wants another token. */
  async listen(take, state) {
    for (;;) {
      try {
        const answer = await fetch("/api/events", { headers: this.headers() });
        if (answer.ok) {
          state("live");
          await this.events(answer.body, take);
        }
        state("lost");
        if (answer.status === 403) return;
      } catch {
        // The connection is broken.
        state("lost");
      }
      await new Promise(again => setTimeout(again, AGAIN));
    }
  }

  /** Reads a stream until it ends. An event is a line that begins with `data: `, and an empty one. */
  async events(body, take) {
    const pieces = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await pieces.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) take(JSON.parse(event.slice("data: ".length)));
    }
  }

  async job(number) {
    return JSON.parse(await this.get(`/api/job/${number}`));
  }

  /** The nodes of a job's node set. */
  async set(number) {
    return JSON.parse(await this.get(`/api/job/${number}/set`));
  }

  /** What is kept of the past after a frame, and after a time in milliseconds. */
  async past(after, since) {
    return JSON.parse(await this.get(`/api/past/${after}/${since}`));
  }

  async link(link) {
    return JSON.parse(await this.get(`/api/link/${nodeOf(link)}/${directionOf(link)}`));
  }

  /** Faults, where they come from and what they did. */
  async faults() {
    return JSON.parse(await this.get("/api/faults"));
  }

  /** What PEs of a job wait for. */
  async waits(job) {
    return JSON.parse(await this.get(`/api/waits/${job}`));
  }

  async fault(spec) {
    await this.post("/api/fault", { spec });
  }
}

/** A finished run. */
export class Recorded {
  constructor(text) {
    this.data = JSON.parse(text);
    this.control = false;
    this.finished = true;
    /** It is known what links carried when. */
    this.played = Boolean(this.data.past && this.data.past.frames.length);
  }

  async open() {
    return this.data.network;
  }

  listen(take, state) {
    take(this.data.event);
    state("finished");
  }

  async past() {
    return this.data.past;
  }

  async job() {
    return this.data.placement;
  }

  async set() {
    return this.data.set;
  }

  async link(link) {
    return { classes: this.data.classes[link] || [], channels: [] };
  }
}

/** The source of this page. */
export function source() {
  const recorded = document.getElementById("recorded");
  return recorded ? new Recorded(recorded.textContent) : new Daemon();
}
