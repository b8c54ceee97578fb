// The board: rows are patched in place by CallSid as news of them come, and times go on in between.

import { keyboard } from "./keys.js";
import { Order } from "./order.js";
import { fill, tick, urgencyOf } from "./rows.js";
import { Alarm } from "./sound.js";
import { Stream } from "./stream.js";
import { showHeader, showSince } from "./header.js";
import { age, catalogue } from "./words.js";

const STALE_MS = 2000;
const TICK_MS = 1000;
const LOOK_MS = 500;
const SEEN = "callflow-seen";

const table = document.getElementById("calls");
const body = table.tBodies[0];
const base = document.body.dataset.base;
const w = catalogue(table.dataset.words);
const news = document.getElementById("news");
const trouble = document.getElementById("trouble");
const blank = document.getElementById("row").content.firstElementChild;
const order = new Order(body, document.getElementById("held"), (tr) => {
  sights.unobserve(tr);
  inSight.delete(tr);
});
const alarm = new Alarm(document.getElementById("sound"), w);

// Times go on in the rows that somebody can see: a thousand of them would keep a processor busy.
const inSight = new Set();
const sights = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    if (isIntersecting) inSight.add(target);
    else inSight.delete(target);
  }
  tickRows();
});

const calls = new Map(); // CallSid → what the server says of it
const rows = new Map(); // CallSid → its row on the page
for (const tr of body.rows) {
  rows.set(tr.dataset.sid, tr);
  sights.observe(tr);
}
const seen = new Set(JSON.parse(sessionStorage.getItem(SEEN) ?? "[]"));
const announced = new Set();

let header = {};
let toldAt = performance.now(); // when the server's clock was told, on ours
let told = Number(table.dataset.now);
let data = Number(table.dataset.data);
let cut = false;
let gone = false;
let out = false;
let wasStale = false;

const now = () => told + (performance.now() - toldAt);

function setClock(head) {
  told = head.now_ms;
  toldAt = performance.now();
  data = head.as_of_ms;
  document.body.dataset.asOf = data;
  header = { ...header, ...head };
  cut = false;
  gone = false;
}

// What nobody has acknowledged: neither a person on the line, nor this one here.
function unseen(row) {
  if (row.word === "ended" || row.alert === "accepted") return false;
  const urgency = urgencyOf(row);
  const matters = urgency === "P1" || urgency === "P2" || row.needs_human !== null;
  return matters && !seen.has(`${row.call_sid} ${urgency}`);
}

function mark(sid) {
  const row = calls.get(sid);
  const tr = rows.get(sid);
  const open = row !== undefined && unseen(row);
  tr.classList.toggle("unseen", open);
  const button = tr.querySelector(".seen");
  if (button.hidden === open) button.hidden = !open;
}

function haveSeen(sids) {
  for (const sid of sids) {
    const row = calls.get(sid);
    if (row) seen.add(`${sid} ${urgencyOf(row)}`);
    if (rows.has(sid)) mark(sid);
  }
  sessionStorage.setItem(SEEN, JSON.stringify([...seen].slice(-5000)));
  sound();
}

const graveOnes = () =>
  [...calls.values()].filter((row) => urgencyOf(row) === "P1" && unseen(row));

const atRisk = (row) => w("board.new_p1", { place: row.lift || row.site || row.call_sid });

function sound() {
  const grave = graveOnes();
  alarm.set(grave.length > 0);
  for (const row of grave) {
    if (!announced.has(row.call_sid)) {
      announced.add(row.call_sid);
      news.textContent = atRisk(row);
    }
  }
}

function put(row) {
  calls.set(row.call_sid, row);
  let tr = rows.get(row.call_sid);
  if (!tr) {
    tr = blank.cloneNode(true);
    rows.set(row.call_sid, tr);
    body.append(tr);
    sights.observe(tr);
  }
  fill(tr, row, w, base, now());
  mark(row.call_sid);
}

const wanted = () =>
  [...calls.values()].sort((one, other) => (one.order < other.order ? -1 : 1)).map((one) => one.call_sid);

function arrange() {
  const sids = wanted();
  const shown = [...body.rows].map((tr) => tr.dataset.sid);
  const same = sids.length === shown.length && sids.every((sid, index) => sid === shown[index]);
  if (same) return order.tell(false);
  if (order.holds) {
    for (const [sid, tr] of rows) tr.classList.toggle("gone", !calls.has(sid));
    // What would stand on top may be far below meanwhile.
    const [grave] = graveOnes();
    const note = document.getElementById("held-grave");
    const told = grave ? atRisk(grave) : "";
    if (note.textContent !== told) note.textContent = told;
    return order.tell(true);
  }
  order.apply(rows, sids);
}

function sortNow() {
  order.apply(rows, wanted());
}

function settle() {
  arrange();
  sound();
  document.getElementById("empty").hidden = calls.size > 0;
  showHeader(header, w);
  pass();
}

// Times go on in the table once a second: laying it out takes 30 ms where it has a thousand rows.
function tickRows() {
  const at = now();
  for (const tr of inSight) {
    const row = calls.get(tr.dataset.sid);
    if (row) tick(tr, row, w, at);
  }
}

// Old data shows that it is old.
function pass() {
  const at = now();
  const old = Math.max(0, at - data);
  const stale = cut || out || old > STALE_MS;
  const shown = document.getElementById("age");
  shown.textContent = age(old);
  shown.dataset.fresh = stale ? "no" : "yes";
  document.getElementById("clock").textContent = new Date(at).toLocaleTimeString(
    document.documentElement.lang,
    { hourCycle: "h23" },
  );
  showSince(header, at, w);
  document.body.classList.toggle("stale", stale);
  complain(stale, old);
}

function complain(stale, old) {
  if (!stale && !header.trouble) {
    if (wasStale) news.textContent = w("board.back");
    wasStale = false;
    trouble.hidden = true;
    trouble.replaceChildren();
    return;
  }
  wasStale ||= stale;
  const store = gone || !cut;
  const why = out ? "board.signed_out" : !stale ? "" : store ? "board.lost_store" : "board.lost_web";
  // The cause alone is read out when it changes; its age would be read every second.
  if (trouble.dataset.why !== why || trouble.hidden) {
    const cause = document.createElement("span");
    cause.textContent = why ? w(why) : header.trouble;
    const since = document.createElement("span");
    since.setAttribute("aria-hidden", "true");
    trouble.replaceChildren(cause, since);
    if (out) {
      const link = document.createElement("a");
      link.href = `${base}/sign-in?next=${encodeURIComponent(base)}`;
      link.textContent = w("page.sign_in");
      trouble.append(link);
    }
    trouble.dataset.why = why;
    trouble.hidden = false;
  }
  const text = stale ? w("board.stale", { age: age(old) }) : "";
  if (trouble.children[1].textContent !== text) trouble.children[1].textContent = text;
}

const stream = new Stream(table.dataset.events, {
  snapshot(event) {
    setClock(event.header);
    const here = new Set(event.rows.map((row) => row.call_sid));
    for (const sid of calls.keys()) if (!here.has(sid)) calls.delete(sid);
    event.rows.forEach(put);
    settle();
  },
  change(event) {
    setClock(event.header);
    event.gone.forEach((sid) => calls.delete(sid));
    event.changed.forEach(put);
    settle();
  },
  clock(event) {
    setClock(event.header);
    pass();
  },
  lost() {
    cut = true;
    pass();
  },
  storeGone() {
    gone = true;
    pass();
  },
  signedOut() {
    out = true;
    calls.clear();
    rows.clear();
    inSight.clear();
    body.replaceChildren();
    for (const told of [news, document.getElementById("held-grave")]) told.textContent = "";
    order.tell(false);
    sound();
    pass();
  },
});

order.changed = arrange;
setInterval(tickRows, TICK_MS);
setInterval(() => {
  arrange();
  pass();
}, LOOK_MS);

document.getElementById("sort").addEventListener("click", sortNow);
body.addEventListener("click", (event) => {
  const button = event.target.closest(".seen");
  if (!button) return;
  const tr = button.closest("tr");
  haveSeen([tr.dataset.sid]);
  tr.querySelector("a").focus();
});

const here = () => document.activeElement?.closest?.("#calls tbody tr");

function go(step) {
  const all = [...body.rows];
  const at = all.indexOf(here());
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step));
  focus(all[next]);
}

function focus(tr) {
  const link = tr?.querySelector("a");
  link?.focus();
  link?.scrollIntoView({ block: "nearest" });
}

keyboard({
  j: () => go(1),
  k: () => go(-1),
  ArrowDown: () => (here() ? go(1) : false),
  ArrowUp: () => (here() ? go(-1) : false),
  Home: () => (here() ? focus(body.rows[0]) : false),
  End: () => (here() ? focus(body.rows[body.rows.length - 1]) : false),
  s: sortNow,
  a: () => here() && haveSeen([here().dataset.sid]),
  A: () => haveSeen([...calls.keys()]),
  m: () => alarm.press(),
});
