// Where figures come from: a daemon, or what was recorded of a finished run.

export class Refused extends Error {}

/** A daemon. The token of the URL's fragment becomes a cookie, and a key that stays in this tab. */
export class Daemon {
  constructor() {
    this.key = sessionStorage.getItem("key");
    this.control = sessionStorage.getItem("control") === "true";
  }

  async open() {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) {
      history.replaceState(null, "", location.pathname);
      const answer = await this.post("/session", { token });
      const { key, control } = JSON.parse(answer);
      this.key = key;
      this.control = control;
      sessionStorage.setItem("key", key);
      sessionStorage.setItem("control", String(control));
    }
    return JSON.parse(await this.get("/api/network"));
  }

  async get(path) {
    return this.text(await fetch(path, { headers: this.headers() }));
  }

  async post(path, body) {
    return this.text(await fetch(path, { method: "POST", headers: this.headers(), body: JSON.stringify(body) }));
  }

  headers() {
    return this.key ? { "x-angara-key": this.key } : {};
  }

  async text(answer) {
    const text = await answer.text();
    if (!answer.ok) throw new Refused(text.trim() || `${answer.status}`);
    return text;
  }

  /** Calls `take` with events, and `state` when the stream comes and goes. */
  listen(take, state) {
    const events = new EventSource("/api/events");
    events.onopen = () => state("live");
    events.onerror = () => state("lost");
    events.onmessage = message => take(JSON.parse(message.data));
  }

  async job(number) {
    return JSON.parse(await this.get(`/api/job/${number}`));
  }

  async link(link) {
    return JSON.parse(await this.get(`/api/link/${link >> 3}/${link & 7}`));
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
  }

  async open() {
    return this.data.network;
  }

  listen(take, state) {
    take(this.data.event);
    state("finished");
  }

  async job() {
    return this.data.placement;
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
