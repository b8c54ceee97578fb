// One call: its parts are replaced when something happens to it, and what is done is sent from here.

import { keyboard } from "./keys.js";
import { Stream } from "./stream.js";
import { catalogue } from "./words.js";

const LEAST_MS = 700;
// Between two readings of the same call, however much happens in it.

const page = document.getElementById("call");
const base = document.body.dataset.base;
const w = catalogue(page.dataset.words);
const trouble = document.getElementById("trouble");
const told = document.getElementById("told");

const shown = new Map(); // live part → what the server last said in it
let reading = false;
let wanted = false;

// The page is asked for again, and its live parts taken out of it. It was escaped by the server, no
// script in it is run by being put here, and nothing that somebody writes in is among these parts.
async function read() {
  if (reading) {
    wanted = true;
    return;
  }
  reading = true;
  wanted = false;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.ok && !answer.redirected) take(await answer.text());
  } catch {
    complain("board.lost_web");
  }
  // A long call, or a busy server, is asked for less often.
  const pause = Math.max(LEAST_MS, 5 * (performance.now() - began));
  await new Promise((resolve) => setTimeout(resolve, pause));
  reading = false;
  if (wanted) read();
}

function take(html) {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
    // What somebody is about to choose from stays.
    if (!other || (part.localName === "select" && (part.value || part === document.activeElement))) continue;
    const text = new XMLSerializer().serializeToString(other);
    if (shown.get(part) !== text) replace(part, other);
    shown.set(part, text);
  }
  const { revision, seen } = fresh.getElementById("call").dataset;
  Object.assign(page.dataset, { revision, seen });
  localise(document);
  const acts = document.getElementById("acts");
  const others = fresh.getElementById("acts");
  if (acts && others) acts.disabled = others.disabled;
  trouble.hidden = true;
}

function replace(part, other) {
  const open = [...part.querySelectorAll("details")].map((one) => one.open);
  const frame = part.querySelector(".frame");
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const left = frame?.scrollLeft;
  for (const { name, value } of other.attributes) {
    if (name.startsWith("data-")) part.setAttribute(name, value);
  }
  part.replaceChildren(...document.importNode(other, true).childNodes);
  part.querySelectorAll("details").forEach((one, index) => {
    if (open[index] !== undefined) one.open = open[index];
  });
  if (frame && left) part.querySelector(".frame").scrollLeft = left;
  if (focused) part.querySelector(focused.localName)?.focus();
}

function complain(why) {
  trouble.textContent = w(why);
  trouble.hidden = false;
}

// Times are those of whoever looks.
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const here = new Date(time.dateTime).toLocaleTimeString(document.documentElement.lang, {
      hour12: false,
    });
    if (time.textContent !== here) time.textContent = here;
  }
}

let known = null;

function look(event) {
  const row = (event.rows ?? event.changed).find((one) => one.call_sid === page.dataset.sid);
  if (row && known !== row.revision) {
    known = row.revision;
    if (known !== page.dataset.revision) read();
  }
  document.body.classList.toggle("stale", event.header.stale);
  if (event.header.stale) complain("board.lost_store");
  else trouble.hidden = true;
}

new Stream(page.dataset.events, {
  snapshot: look,
  change: look,
  clock(event) {
    document.body.classList.toggle("stale", event.header.stale);
    if (event.header.stale) complain("board.lost_store");
    else trouble.hidden = true;
  },
  lost() {
    document.body.classList.add("stale");
    complain("board.lost_web");
  },
  storeGone() {
    complain("board.lost_store");
  },
  signedOut() {
    document.body.classList.add("stale");
    complain("board.signed_out");
  },
});

async function send(form) {
  const fields = new URLSearchParams(new FormData(form));
  // What this person has seen: another who was first is told to them.
  fields.set("seen", page.dataset.seen);
  // A name of its own: asked again because the answer was lost, it is done once.
  form.dataset.request ??= crypto.randomUUID();
  fields.set("request", form.dataset.request);
  const buttons = [...form.querySelectorAll("button")];
  for (const button of buttons) button.disabled = true;
  say("", "");
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      body: fields,
      headers: { "X-CSRF": fields.get("csrf"), Accept: "application/json" },
    });
    await report(answer, form);
  } catch {
    say("bad", w("act.failed", { why: w("act.unreachable") }));
  }
  for (const button of buttons) button.disabled = false;
  read();
}

async function report(answer, form) {
  // Where it is not known whether it was done, it is asked again under the same name.
  if (answer.status !== 503) delete form.dataset.request;
  const text = await answer.text();
  let why = text;
  try {
    const body = JSON.parse(text);
    why = body.told ?? body.error ?? text;
    if (answer.ok && body.done) {
      if (form.dataset.act === "say" || form.dataset.act === "note") form.reset();
      return say("good", w("act.done"));
    }
  } catch {
    // The door answers in plain words.
  }
  say("bad", w("act.failed", { why }));
}

function say(look, text) {
  told.className = `told ${look}`;
  told.textContent = text;
}

for (const form of document.querySelectorAll("form[data-act]")) {
  // Other words are another request: the one before may have been done.
  form.addEventListener("input", () => delete form.dataset.request);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const sure = form.querySelector("[data-sure]");
    if (sure && !(await confirmed(document.getElementById(sure.dataset.sure)))) return;
    send(form);
  });
}

function confirmed(dialog) {
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

localise(document);
// What has just happened is at the right end of the picture.
for (const frame of document.querySelectorAll(".timeline .frame")) frame.scrollLeft = frame.scrollWidth;
const back = () => document.getElementById("back").click();
keyboard({ b: back, Escape: back });
