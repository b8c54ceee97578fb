// The news of the board, by server-sent events. The browser itself comes back after a cut and says
// what it had; after a refusal it gives up, so then this begins anew.

const AGAIN_MS = [500, 1000, 2000, 4000];
const HANGING_MS = 10000;
const SILENT_MS = 3000;
// The server tells the time every second: after three without a word the line is dead, even where
// the browser has not noticed (a machine that slept, a cable that was pulled).

export class Stream {
  constructor(url, on) {
    this.url = url;
    this.on = on;
    this.failed = 0;
    this.heardAt = performance.now();
    this.open();
    setInterval(() => this.watch(), 500);
    addEventListener("pagehide", () => this.source.close());
    addEventListener("pageshow", (event) => event.persisted && this.open());
  }

  open() {
    this.source?.close();
    const source = new EventSource(this.url);
    this.source = source;
    this.openedAt = performance.now();
    for (const kind of ["snapshot", "change", "clock"]) {
      source.addEventListener(kind, (event) => this.take(kind, event.data));
    }
    source.addEventListener("error", () => {
      this.on.lost();
      if (source.readyState === EventSource.CLOSED) this.refused();
    });
  }

  take(kind, data) {
    this.failed = 0;
    this.heardAt = performance.now();
    this.on[kind](JSON.parse(data));
  }

  watch() {
    const now = performance.now();
    if (this.source.readyState === EventSource.CLOSED) return;
    if (now - Math.max(this.heardAt, this.openedAt) > SILENT_MS) {
      this.on.lost();
      const hangs = now - this.openedAt > HANGING_MS;
      if (this.source.readyState === EventSource.OPEN || hangs) this.open();
    }
  }

  async refused() {
    const wait = AGAIN_MS[Math.min(this.failed, AGAIN_MS.length - 1)];
    this.failed += 1;
    await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      // A stream does not tell why it was refused; a small question does.
      const answer = await fetch(this.url.replace(/events$/, "session"));
      if (answer.status === 401) {
        // Nobody who is not signed in sees a word. An answer that is still under way to the page of
        // a call finds no place there to be put into; the board takes its rows away itself.
        document.getElementById("call")?.replaceChildren();
        document.title = "callflow";
        return this.on.signedOut();
      }
      if (answer.status === 503) this.on.storeGone();
    } catch {
      // No connection at all: it is tried again.
    }
    if (this.source.readyState === EventSource.CLOSED) this.open();
  }
}
