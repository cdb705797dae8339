// Clicks and keys for the whole page, and the first drawing.

document.addEventListener("click", (event) => {
  const card = event.target.closest(".card");
  if (!card) return;
  const item = card.closest("#browse-list li");
  if (item) enlarge(matching(), item.place);
  else enlarge(picturesOf(card.closest("ul")), cardsOf(card.closest("ul")).indexOf(card));
});

function keyOnCard(event, card) {
  const key = event.key;
  if (key.startsWith("Arrow")) {
    const item = card.closest("#browse-list li");
    if (item) arrowInBrowse(item, key);
    else {
      neighbour(card, key)?.focus();
    }
    return true;
  }
  if (key.toLowerCase() === "c") {
    card.click();
    chooseClass();
    return true;
  }
  const mark = markOf(key.toLowerCase(), card.index);
  if (mark === null) return false;
  setMark(card.index, mark);
  return true;
}

function keyInViewer(event) {
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") turn(event.key === "ArrowLeft" ? -1 : 1);
  else if (event.key.toLowerCase() === "c") chooseClass();
  else {
    const mark = markOf(event.key.toLowerCase(), viewed());
    if (mark === null) return false;
    setMark(viewed(), mark);
  }
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input:not([type=range]), select, textarea");
  if (typing) return;
  const card = event.target.closest(".card");
  let done = false;
  if (viewer.open) done = keyInViewer(event);
  else if ($("help").open) return;
  else if (card) done = keyOnCard(event, card);
  if (!done && !viewer.open) {
    const key = event.key.toLowerCase();
    if (key === "?") $("help").showModal();
    else if (key === "/") $("search").focus();
    else if (key === "b") slider.focus();
    else return;
    done = true;
  }
  if (done) event.preventDefault();
});

$("numbered").append(...D.classes.slice(0, 9).map((name) => element("li", { textContent: name })));

if ($("rejected")) {
  $("rejected").append(...D.rejected.map(([path, reason]) => element("tr", {}, element("td", { textContent: path }), element("td", { textContent: reason }))));
  if (D.rejectedCount > D.rejected.length) {
    const more = element("td", { textContent: `… and ${whole(D.rejectedCount - D.rejected.length)} more` });
    more.colSpan = 2;
    $("rejected").append(element("tr", {}, more));
  }
}

if (thumbnail.size < N) {
  const text = `Thumbnails are kept of ${whole(thumbnail.size)} of ${whole(N)} pictures, spread over all scores and classes; the others have a tile that says so.`;
  setText($("kept-note"), text);
  setText($("borderline-note"), thumbnail.size ? "Only pictures with a thumbnail are shown in the galleries." : "No thumbnail was kept.");
}

if (matchMedia("(max-width: 980px)").matches) $("commands").open = false;
$("commands").hidden = !D.folder;
restoreMarks();
for (const listener of listeners) listener();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
