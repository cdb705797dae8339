// A picture in a gallery: one button, filled again with another picture when the boundary moves.

const said = (text) => element("span", { className: "unseen", textContent: text });

function newCard() {
  const picture = element("img", { alt: "", decoding: "async" });
  picture.draggable = false;
  const none = element("span", { className: "none", textContent: "no thumbnail kept", hidden: true });
  const mark = element("span", { className: "mark", hidden: true });
  const name = element("span", { className: "name" });
  const side = element("span", { className: "unseen" });
  const nearest = element("span", { className: "class" });
  const sure = element("span", { className: "sure" });
  const number = element("span", { className: "score" });
  const card = element("button", { type: "button", className: "card", tabIndex: -1 });
  card.append(element("span", { className: "frame-of" }, picture, none, mark), name, element("span", { className: "verdict" }, side, nearest, sure), said(", outlier score "), number);
  card.parts = { picture, none, mark, name, side, nearest, sure, number };
  card.index = -1;
  return card;
}

function markText(mark) {
  return mark === undefined ? "" : mark < 0 ? "outlier" : D.classes[mark];
}

function fillCard(card, i) {
  const { picture, none, mark, name, side, nearest, sure, number } = card.parts;
  if (card.index !== i) {
    card.index = i;
    card.dataset.index = i;
    const data = thumbnail.get(i);
    if (data === undefined) picture.removeAttribute("src");
    else picture.src = `data:${T.mime};base64,${data}`;
    picture.hidden = data === undefined;
    none.hidden = data !== undefined;
    const file = names[i].slice(names[i].lastIndexOf("/") + 1);
    setText(name, file);
    card.title = names[i];
  }
  const aside = isAside(i, state.threshold);
  const given = state.marks.get(i);
  card.dataset.side = aside ? "aside" : "kept";
  mark.hidden = given === undefined;
  mark.dataset.kind = given < 0 ? "outlier" : "known";
  if (given !== undefined) {
    const text = given < 0 ? "▲ outlier" : `● ${markText(given)}`;
    if (mark.lastChild?.textContent !== text) mark.replaceChildren(said("marked "), text);
  }
  setText(nearest, D.classes[label[i]]);
  setText(sure, percent(confidence[i], 0));
  setText(number, Math.abs(score[i]) < 100 ? score[i].toFixed(2) : short(score[i]));
  setText(side, aside ? ", put aside: " : ", kept: ");
}

// Show these pictures in a list, with the cards that are there already.
function fillGallery(list, indices, nothing) {
  if (list.firstElementChild?.classList.contains("empty")) list.firstElementChild.remove();
  while (list.children.length > indices.length) list.lastElementChild.remove();
  while (list.children.length < indices.length) list.append(element("li", {}, newCard()));
  indices.forEach((i, place) => fillCard(list.children[place].firstElementChild, i));
  if (indices.length === 0) {
    list.append(element("li", { className: "empty", textContent: nothing }));
  } else if (!list.querySelector('.card[tabindex="0"]')) {
    list.querySelector(".card").tabIndex = 0; // one stop for the Tab key; arrows go on from it
  }
}

const cardsOf = (list) => [...list.querySelectorAll(".card")];
const picturesOf = (list) => cardsOf(list).map((card) => card.index);

// The card that an arrow leads to within its gallery, or undefined at an edge.
function neighbour(card, key) {
  const cards = cardsOf(card.closest("ul"));
  const at = cards.indexOf(card);
  if (key === "ArrowRight") return cards[at + 1];
  if (key === "ArrowLeft") return cards[at - 1];
  const top = card.offsetTop;
  const columns = cards.filter((other) => other.offsetTop === cards[0].offsetTop).length;
  const there = key === "ArrowDown" ? at + columns : at - columns;
  const found = cards[Math.min(there, cards.length - 1)];
  return found && found.offsetTop !== top ? found : undefined;
}

// The focused card is the one that the Tab key comes back to.
document.addEventListener("focusin", (event) => {
  const card = event.target.closest?.(".card");
  if (!card) return;
  for (const other of card.closest("ul").querySelectorAll('.card[tabindex="0"]')) other.tabIndex = -1;
  card.tabIndex = 0;
});

// --- the galleries ---

// Whole rows of each gallery, however wide the window is.
const ROWS = { outlying: 2, more: 8, borderline: 2, certain: 1 };
const columnsOf = (list) => getComputedStyle(list).gridTemplateColumns.split(" ").length;
let columns = { outlying: 7, borderline: 3, certain: 4 };
let outlyingRows = ROWS.outlying;
new ResizeObserver(() => {
  const small = rowsOfClasses[0]?.lists[0];
  columns = {
    outlying: columnsOf($("gallery-outlying")),
    borderline: columnsOf($("gallery-inside")),
    certain: small ? columnsOf(small) : 1,
  };
  changed();
}).observe($("content"));

function withThumbnail(from, step, count) {
  const found = [];
  for (let at = from; found.length < count && at >= 0 && at < thumbnailed.length; at += step) found.push(thumbnailed[at]);
  return found;
}

const thumbnailScores = Float32Array.from(thumbnailed, (i) => (Number.isNaN(score[i]) ? -Infinity : score[i]));

function showOutlying() {
  fillGallery($("gallery-outlying"), withThumbnail(thumbnailed.length - 1, -1, outlyingRows * columns.outlying), "Nothing here.");
}

function showBorderline() {
  const place = upTo(thumbnailScores, limitOf(state.threshold));
  const count = ROWS.borderline * columns.borderline;
  fillGallery($("gallery-inside"), withThumbnail(place - 1, -1, count), "No picture is kept.");
  fillGallery($("gallery-outside"), withThumbnail(place, 1, count), "No picture is put aside.");
}

$("more-outlying").addEventListener("click", () => {
  outlyingRows = outlyingRows === ROWS.more ? ROWS.outlying : ROWS.more;
  setText($("more-outlying"), outlyingRows === ROWS.more ? "Show fewer" : "Show more");
  changed();
});

// --- one row a class; only those on the screen are filled ---

const rowsOfClasses = D.classes.map((name, c) => {
  const count = element("span", { className: "soft" });
  const lists = ["Most certain", "Least certain"].map((which) => {
    const list = element("ul", { className: "gallery small" });
    list.setAttribute("aria-label", `${name}: ${which.toLowerCase()}`);
    return list;
  });
  const title = element("h3", {}, element("span", { className: "number", textContent: c < 9 ? String(c + 1) : "" }), name, " ", count);
  const sides = ["Most certain", "Least certain"].map((which, i) => element("div", {}, element("p", { className: "small-title", textContent: which }), lists[i]));
  const row = element("section", { className: "class-row" }, title, element("div", { className: "two" }, ...sides));
  row.setAttribute("aria-label", name);
  return { row, count, lists, seen: false };
});
$("class-rows").append(...rowsOfClasses.map(({ row }) => row));

const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const found = rowsOfClasses.find(({ row }) => row === entry.target);
      found.seen = entry.isIntersecting;
    }
    changed();
  },
  { rootMargin: "300px" },
);
rowsOfClasses.forEach(({ row }) => watcher.observe(row));

function showClasses() {
  rowsOfClasses.forEach(({ count, lists, seen }, c) => {
    if (!seen) return;
    const kept = upTo(ofClass[c].scores, limitOf(state.threshold));
    setText(count, `${whole(kept)} kept of ${whole(ofClass[c].scores.length)}`);
    const there = ofClass[c].sure.filter((i) => !isAside(i, state.threshold));
    const none = kept ? "No thumbnail kept of these." : "No picture is kept.";
    const half = Math.ceil(there.length / 2); // a picture is one or the other
    const most = Math.min(half, ROWS.certain * columns.certain);
    const least = Math.min(there.length - half, ROWS.certain * columns.certain);
    fillGallery(lists[0], there.slice(0, most), none);
    fillGallery(lists[1], there.slice(there.length - least).reverse(), none);
  });
}

listeners.push(showOutlying, showBorderline, showClasses);
