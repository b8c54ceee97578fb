"use strict";
// Runs before the page is painted, so that nobody is dazzled: light or dark as this person chose on
// this machine, else as the system has it (the style sheet follows that by itself).
(() => {
  const KEY = "callflow-theme";
  const root = document.documentElement;
  const chosen = localStorage.getItem(KEY);
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  const dark = () =>
    root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  const toggle = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem(KEY, root.dataset.theme);
  };
  document.addEventListener("callflow:theme", toggle);
  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      button.hidden = false;
      button.addEventListener("click", toggle);
    }
  });
})();
