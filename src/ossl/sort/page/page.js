// The page's state, and small helpers.

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
