// What the pages do without, made quicker: keys, filters that apply at once, and a job that shows what becomes of it.
"use strict";

const root = document.documentElement;
root.classList.add("scripted");

const writing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;
const keys = document.querySelector(".keys");
if (keys !== null && keys.textContent.trim() !== "") keys.hidden = false;

for (const field of document.querySelectorAll("[data-submits]")) {
  field.addEventListener("change", () => field.form.requestSubmit());
}

function move(step) {
  const items = [...document.querySelectorAll("[data-item]")];
  if (items.length === 0) return;
  const at = items.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(Math.max(at + step, 0), items.length - 1);
  items[next].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && writing(event.target)) event.target.blur();
  if (writing(event.target)) return;
  if (event.key === "j" || event.key === "k") {
    move(event.key === "j" ? 1 : -1);
    event.preventDefault();
    return;
  }
  const wanted = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (wanted === null) return;
  event.preventDefault();
  // A key alone never decides: it leads to the button, and Enter presses it.
  if (wanted.tagName === "A") wanted.click();
  else wanted.focus();
});

// A form is sent once, however often it is pressed.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent !== undefined) event.preventDefault();
  form.dataset.sent = "";
});
window.addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

const SOON = 1000;
const LATER = 10000;
const MANY = 60;
let looks = 0;

async function fresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
  if (!answer.ok) return null;
  return new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main[data-live]");
}

function tell() {
  if (document.querySelector(".toast") !== null) return;
  const toast = document.createElement("p");
  toast.className = "toast";
  toast.setAttribute("role", "status");
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Show it";
  toast.append("Something changed while you were here. ", link);
  document.body.append(toast);
}

async function look() {
  const main = document.querySelector("main[data-live]");
  if (main === null) return;
  looks += 1;
  let wait = main.dataset.moving === undefined || looks > MANY ? LATER : SOON;
  if (!document.hidden) {
    try {
      const now = await fresh();
      if (now !== null && (now.dataset.live !== main.dataset.live || now.dataset.moving !== main.dataset.moving)) {
        // Nobody may decide on what was put before them between a look and a key press.
        if (main.dataset.moving === undefined && main.querySelector("[data-decide]") !== null) tell();
        else main.replaceWith(document.adoptNode(now));
        wait = SOON;
      }
    } catch {
      wait = LATER;
    }
  }
  setTimeout(look, wait);
}
if (document.querySelector("main[data-live]") !== null) setTimeout(look, SOON);
