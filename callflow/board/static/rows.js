// What a row says in each of its cells: the same as cells.py says when the page is made. Whatever
// comes from a call is put in as text, never as markup.

import { age, clock } from "./words.js";

const SOON = 0.75;
const GRAVE = new Set(["fire", "smoke", "water", "medical", "limb", "violence", "injured"]);
const SHAPES = { soon: "P2", over: "P1", "": "none" };

// Danger that was heard in words that nobody has understood yet counts at once.
export const urgencyOf = (row) => (row.hurried ? "P1" : row.urgency);
const stateOf = (word) => word.replaceAll(" ", "_");

function shortWorker(worker) {
  if (!worker) return "";
  const [node, process = ""] = worker.split("/");
  return `${node.split("@")[0]}/${process.split("-")[0]}`;
}

function ladder(row, w) {
  if (row.alert === null || row.word === "ended") return "";
  return w(`ladder.${row.alert}`, { name: row.human || w("who.human") });
}

function takeovers(count, w) {
  if (!count) return "";
  return count === 1 ? w("beat.takeover") : w("beat.takeovers", { count });
}

// What only an event changes.
function lasting(row, w) {
  const [speaker, words] = row.last ?? ["", ""];
  const urgency = urgencyOf(row);
  return {
    urgency: urgency ?? "–",
    urgency_word: w(`urgency.${urgency ?? "none"}`),
    state: w(`state.${stateOf(row.word)}`),
    needed: row.needs_human && row.alert !== "accepted" ? w("human.needed") : "",
    ladder: ladder(row, w),
    old: row.stale ? w("board.unseen") : "",
    lift: row.lift || row.site || w("page.unknown"),
    address: row.address ?? "",
    people: row.people === null ? "" : w("people.count", { count: row.people }),
    scenario: row.scenario ? w(`scenario.${row.scenario}`) : "",
    outcome: row.outcome ? w(`outcome.${row.outcome}`) : "",
    talks: w("who.talks", { who: w(`who.${row.talks}`) }),
    who: speaker ? w(`who.${speaker}`) : "",
    words: speaker ? words || w("said.silence") : "",
    now: row.speaking ? w("said.now") : "",
    worker: shortWorker(row.worker),
    takeovers: takeovers(row.takeovers, w),
  };
}

// What changes while nothing happens.
function passing(row, w, now) {
  return {
    waiting: row.waiting_since === null ? "" : clock(now - row.waiting_since),
    beat: row.beat_at === null ? "" : w("beat.age", { age: age(now - row.beat_at) }),
  };
}

function timer(one, w, now) {
  const past = now - one.since;
  const look = past >= one.limit_ms ? "over" : past >= SOON * one.limit_ms ? "soon" : "";
  return {
    text: `${w(`timer.${one.name}`)} ${clock(past)} / ${clock(one.limit_ms)}`,
    look,
    shape: SHAPES[look],
    word: look ? ` ${w(`timer.${look}`)}` : "",
  };
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setData(node, name, value) {
  if (node.dataset[name] !== value) node.dataset[name] = value;
}

function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

function put(tr, parts) {
  for (const [name, text] of Object.entries(parts)) {
    const node = tr.querySelector(`[data-part="${name}"]`);
    setText(node, text);
    setHidden(node, !text);
  }
}

const SVG = "http://www.w3.org/2000/svg";

function item(one) {
  const li = document.createElement("li");
  if (one.shape) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("aria-hidden", "true");
    svg.append(document.createElementNS(SVG, "use"));
    li.append(svg);
  }
  li.append("");
  if (one.shape) {
    const word = document.createElement("span");
    word.className = "visually-hidden";
    li.append(word);
  }
  return li;
}

function show(tr, name, told) {
  const list = tr.querySelector(`[data-list="${name}"]`);
  const kind = `${told.length} ${told.map((one) => one.look + (one.shape ? "+" : "")).join()}`;
  if (list.dataset.kind !== kind) {
    list.replaceChildren(...told.map(item));
    list.dataset.kind = kind;
  }
  setHidden(list, told.length === 0);
  told.forEach((one, index) => {
    const li = list.children[index];
    if (li.className !== one.look) li.className = one.look;
    if (one.shape) {
      li.querySelector("use").setAttribute("href", `#shape-${one.shape}`);
      setText(li.querySelector("span"), one.word);
    }
    const text = one.shape ? li.childNodes[1] : li.firstChild;
    if (text.data !== one.text) text.data = one.text;
  });
}

// Put what has happened to a call into its row.
export function fill(tr, row, w, base, now) {
  setData(tr, "sid", row.call_sid);
  const urgency = urgencyOf(row) ?? "none";
  setData(tr, "urgency", urgency);
  setData(tr, "state", stateOf(row.word));
  tr.querySelector(".urgency use").setAttribute("href", `#shape-${urgency}`);
  tr.querySelector(".c-place a").setAttribute("href", `${base}/calls/${row.call_sid}`);
  put(tr, lasting(row, w));
  const flags = row.flags.map((flag) => ({
    text: w(`flag.${flag}`),
    look: GRAVE.has(flag) ? "grave" : "",
  }));
  show(tr, "flags", flags);
  tick(tr, row, w, now);
}

// Let its times go on.
export function tick(tr, row, w, now) {
  put(tr, passing(row, w, now));
  show(tr, "timers", row.timers.map((one) => timer(one, w, now)));
}
