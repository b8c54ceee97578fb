// Keys for everything. Single ones can be switched off, for who speaks to their machine
// (WCAG 2.1.4), and do nothing while somebody writes.

const KEY = "callflow-single-keys";

export function keyboard(bindings) {
  const dialog = document.getElementById("keys");
  const single = document.getElementById("single-keys");
  const opener = document.getElementById("keys-open");
  if (localStorage.getItem(KEY) === "off") single.checked = false;
  single.addEventListener("change", () => {
    localStorage.setItem(KEY, single.checked ? "on" : "off");
  });
  const help = () => (dialog.open ? dialog.close() : dialog.showModal());
  if (opener) {
    opener.hidden = false;
    opener.addEventListener("click", help);
  }
  const all = { "?": help, t: () => document.dispatchEvent(new Event("callflow:theme")), ...bindings };
  document.addEventListener("keydown", (event) => {
    const writes = event.target.closest?.("input:not([type=checkbox]), textarea, select");
    const within = document.querySelector("dialog[open]");
    if (writes || event.ctrlKey || event.altKey || event.metaKey) return;
    if (within && event.key !== "?") return;
    const named = event.key.length > 1;
    const action = all[event.key];
    if (!action || (!named && !single.checked)) return;
    if (action(event) !== false) event.preventDefault();
  });
}
