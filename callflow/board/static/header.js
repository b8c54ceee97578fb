// The header: the same as cells.py says when the page is made.

import { age } from "./words.js";

const LOOKS = { ok: "ok", understudy: "warn", unknown: "warn", bad: "bad" };

const HOUR_MS = 3600000;
const HOURS = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

function set(id, text) {
  const node = document.getElementById(id);
  if (node.textContent !== text) node.textContent = text;
}

function lamp(name, look, text) {
  const node = document.getElementById(`lamp-${name}`);
  if (node.dataset.lamp !== look) node.dataset.lamp = look;
  if (node.textContent !== text) node.textContent = text;
}

function count(name, number) {
  const chip = document.querySelector(`[data-count="${name}"]`);
  const span = chip.querySelector("span");
  if (span && span.textContent !== String(number)) span.textContent = number;
  if (chip.hidden !== !number) chip.hidden = !number;
}

// Since when takeovers and silences are counted, until that is an hour.
export function showSince(header, now, w) {
  const { since_ms: since = 0 } = header;
  const time = new Date(since).toLocaleTimeString(document.documentElement.lang, HOURS);
  const text = since && now - since < HOUR_MS ? w("head.since", { time }) : "";
  for (const node of document.querySelectorAll("[data-since]")) {
    if (node.textContent !== text) node.textContent = text;
  }
}

export function showHeader(header, w) {
  const { workers = 0, slots = 0, busy = 0, calls = {} } = header;
  for (const chip of document.querySelectorAll("[data-count]")) {
    if (chip.dataset.state) count(chip.dataset.state, calls[chip.dataset.state.replaceAll("_", " ")] ?? 0);
  }
  count("none", Object.keys(calls).length ? 0 : 1);
  count("hidden", header.hidden ?? 0);
  set("takeovers", String(header.takeovers ?? 0));
  set("silence", typeof header.silence_ms === "number" ? age(header.silence_ms) : w("page.none"));
  lamp("workers", workers ? "ok" : "bad", w("head.of_workers", { workers, busy, slots }));
  for (const name of ["beat", "watchdog"]) {
    const is = header[name] ?? "unknown";
    lamp(name, LOOKS[is] ?? "warn", `${w(`head.${name}`)}: ${w(`lamp.${is}`)}`);
  }
}
