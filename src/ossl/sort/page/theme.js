// The page's colours: the system's, or as a person chose.

const $ = (id) => document.getElementById(id);

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

const THEMES = { auto: "Auto colours, as the system has them", light: "Light colours", dark: "Dark colours" };
function setTheme(name) {
  const root = document.documentElement;
  if (name === "auto") delete root.dataset.theme;
  else root.dataset.theme = name;
  $("theme").textContent = THEMES[name].split(" ")[0];
  $("theme").setAttribute("aria-label", THEMES[name]);
  $("theme").dataset.now = name;
  storage.set("ossl-theme", name === "auto" ? null : name);
}
$("theme").addEventListener("click", () => {
  const all = Object.keys(THEMES);
  setTheme(all[(all.indexOf($("theme").dataset.now) + 1) % all.length]);
});
setTheme(storage.get("ossl-theme") in THEMES ? storage.get("ossl-theme") : "auto");
