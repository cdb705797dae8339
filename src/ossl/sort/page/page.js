// Small helpers, the page's state, and its colours.

const $ = (id) => document.getElementById(id);
const state = { threshold: D.threshold, marks: new Map() };
const listeners = []; // called once an animation frame after anything has changed

let asked = false;
function changed() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    for (const listener of listeners) listener();
  });
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// Setting what is there already would cost a layout.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function announce(text) {
  const place = document.querySelector("dialog[open]") ? $("viewer-said") : $("said");
  place.textContent = "";
  place.textContent = text;
}

// A browser may refuse storage to a page from disk; nothing depends on it.
const storage = {
  get(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      if (value === null) localStorage.removeItem(key);
      else localStorage.setItem(key, value);
    } catch {
      // Only convenience is lost.
    }
  },
};

const THEMES = { auto: "as the system has them", light: "light", dark: "dark" };
function setTheme(name) {
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  $("theme").textContent = `◐ ${name[0].toUpperCase()}${name.slice(1)}`;
  $("theme").setAttribute("aria-label", `Colours: ${THEMES[name]}`);
  $("theme").dataset.now = name;
  storage.set("ossl-theme", name === "auto" ? null : name);
}
$("theme").addEventListener("click", () => {
  const all = Object.keys(THEMES);
  setTheme(all[(all.indexOf($("theme").dataset.now) + 1) % all.length]);
});
setTheme(storage.get("ossl-theme") in THEMES ? storage.get("ossl-theme") : "auto");

$("help-button").addEventListener("click", () => $("help").showModal());
$("help-close").addEventListener("click", () => $("help").close());
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
}

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const text = $(button.dataset.copies).textContent;
    try {
      await navigator.clipboard.writeText(text);
      announce("Copied.");
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    } catch {
      getSelection().selectAllChildren($(button.dataset.copies)); // to be copied by hand
    }
  });
}
