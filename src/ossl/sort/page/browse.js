// All pictures: searched, filtered, ordered; only what is on the screen has elements.

const CARD = { width: 132, height: 186, gap: 10 };
const browse = $("browse");
const browseList = $("browse-list");

$("show").append(
  ...[["all", "everything"], ["kept", "kept"], ["aside", "put aside"], ["marked", "marked"]].map(([value, text]) => element("option", { value, textContent: text })),
  ...D.classes.map((name, c) => element("option", { value: `c${c}`, textContent: `kept as ${name}` })),
);

const orders = {
  low: () => order,
  high: () => order.slice().reverse(),
  unsure: () => byValue(confidence),
  sure: () => byValue(confidence).reverse(),
  name: () => Uint32Array.from(names.keys()),
};
const madeOrders = {};
const ordered = (name) => (madeOrders[name] ??= orders[name]());

let lowered; // names in lower case, made at the first search
let found = { ids: new Uint32Array(0), key: "" };

function matching() {
  const show = $("show").value;
  const words = $("search").value.trim().toLowerCase().normalize("NFC");
  const limit = limitOf(state.threshold);
  const depends = show === "kept" || show === "aside" || show[0] === "c" ? limit : show === "marked" ? [...state.marks.keys()].join() : "";
  const key = [show, $("order").value, depends, words].join("\u0000");
  if (key === found.key) return found.ids;
  if (words && !lowered) lowered = names.map((name) => name.toLowerCase().normalize("NFC"));
  const c = show[0] === "c" ? Number(show.slice(1)) : -1;
  const tests = {
    all: () => true,
    kept: (i) => !(score[i] > limit),
    aside: (i) => score[i] > limit,
    marked: (i) => state.marks.has(i),
  };
  const test = c >= 0 ? (i) => label[i] === c && !(score[i] > limit) : tests[show];
  const ids = ordered($("order").value).filter((i) => test(i) && (!words || lowered[i].includes(words)));
  if (found.key.split("\u0000").slice(0, 2).join() !== key.split("\u0000").slice(0, 2).join() || words !== found.words) browse.scrollTop = 0;
  found = { ids, key, words };
  return ids;
}

let layout = { columns: 1, width: 0 };
new ResizeObserver(() => {
  const width = browseList.clientWidth;
  if (!width) return;
  const columns = Math.max(2, Math.floor((width + CARD.gap) / (CARD.width + CARD.gap)));
  layout = { columns, width: (width - (columns - 1) * CARD.gap) / columns };
  changed();
}).observe(browseList);
browse.addEventListener("scroll", changed, { passive: true });

const browseCards = [];
let active = 0; // the place in the list that the Tab key stops at

function showBrowse() {
  const ids = matching();
  const text = ids.length === N ? `${whole(N)} pictures` : `${whole(ids.length)} of ${whole(N)} pictures`;
  setText($("matches"), ids.length ? text : `No picture matches.`);
  active = Math.min(active, Math.max(0, ids.length - 1));
  const rowHeight = CARD.height + CARD.gap;
  const rows = Math.ceil(ids.length / layout.columns);
  browseList.style.height = `${Math.max(0, rows * rowHeight - CARD.gap)}px`;
  const first = Math.max(0, Math.floor(browse.scrollTop / rowHeight) - 1) * layout.columns;
  const last = Math.min(ids.length, (Math.ceil((browse.scrollTop + browse.clientHeight) / rowHeight) + 1) * layout.columns);
  const count = Math.max(0, last - first);
  while (browseCards.length < count) {
    const item = element("li", {}, newCard());
    browseCards.push(item);
    browseList.append(item);
  }
  const focused = document.activeElement?.closest?.("#browse-list li");
  // A place always has the same element, so that the focused one stays itself while scrolling.
  const used = new Set();
  for (let place = first; place < last; place++) {
    const item = browseCards[place % browseCards.length];
    used.add(item);
    const card = item.firstElementChild;
    fillCard(card, ids[place]);
    item.hidden = false;
    item.place = place;
    item.setAttribute("aria-setsize", ids.length);
    item.setAttribute("aria-posinset", place + 1);
    card.tabIndex = place === active ? 0 : -1;
    item.style.width = `${layout.width}px`;
    item.style.transform = `translate(${(place % layout.columns) * (layout.width + CARD.gap)}px, ${Math.floor(place / layout.columns) * rowHeight}px)`;
  }
  for (const item of browseCards) if (!used.has(item) && item !== focused) item.hidden = true;
  if (count && (active < first || active >= last)) browseCards[first % browseCards.length].firstElementChild.tabIndex = 0;
}

// Go to the picture at this place of the list, scrolling as far as needed.
function goTo(place) {
  const ids = matching();
  if (place < 0 || place >= ids.length) return;
  active = place;
  const top = Math.floor(place / layout.columns) * (CARD.height + CARD.gap);
  const bottom = top + CARD.height + 2 * CARD.gap; // with the room above and below the list
  if (top < browse.scrollTop) browse.scrollTop = top;
  if (bottom > browse.scrollTop + browse.clientHeight) browse.scrollTop = bottom - browse.clientHeight;
  showBrowse();
  const card = browseCards.find((item) => !item.hidden && item.place === place)?.firstElementChild;
  card?.focus({ preventScroll: true });
  card?.scrollIntoView({ block: "nearest", behavior: "instant" }); // the list may be half outside
}

function arrowInBrowse(item, key) {
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: layout.columns, ArrowUp: -layout.columns }[key];
  goTo(item.place + by);
}

browseList.addEventListener("focusin", (event) => {
  const item = event.target.closest("li");
  if (item) active = item.place;
});
for (const id of ["search", "show", "order"]) $(id).addEventListener("input", changed);

listeners.push(showBrowse);
