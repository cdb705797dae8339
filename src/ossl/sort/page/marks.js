// A person's decisions: marking, keeping them over a reload, enlarging, and the downloads.

const OUTLIER = -1;
const touched = matchMedia("(pointer: coarse)").matches;
// Marks belong to these very pictures; another page from disk shares the browser's storage.
const marksKey = (() => {
  let sum = N;
  for (const text of [D.sorted, D.images, D.run, D.names.join("\n")]) {
    for (let i = 0; i < text.length; i++) sum = (Math.imul(sum, 31) + text.charCodeAt(i)) | 0;
  }
  return `ossl-marks-${sum >>> 0}`;
})();

function restoreMarks() {
  try {
    for (const [name, mark] of JSON.parse(storage.get(marksKey) ?? "[]")) {
      const i = names.indexOf(name);
      if (i >= 0 && Number.isInteger(mark) && mark >= OUTLIER && mark < K) state.marks.set(i, mark);
    }
  } catch {
    // What cannot be read is no mark.
  }
}

function setMark(i, mark) {
  if (mark === undefined) state.marks.delete(i);
  else state.marks.set(i, mark);
  const kept = [...state.marks].map(([row, what]) => [names[row], what]);
  storage.set(marksKey, kept.length ? JSON.stringify(kept) : null);
  const what = mark === undefined ? "mark taken back" : mark < 0 ? "marked as an outlier" : `marked as ${D.classes[mark]}`;
  announce(`${names[i]}: ${what}.`);
  changed();
}

// The mark that a key stands for: a class, OUTLIER, undefined to take one back, null for no mark.
function markOf(key, i) {
  if (key === "o") return OUTLIER;
  if (key === "k") return label[i];
  if (key === "u") return undefined;
  if (/^[1-9]$/.test(key) && Number(key) <= K) return Number(key) - 1;
  return null;
}

function showMarks() {
  const outliers = [...state.marks.values()].filter((mark) => mark < 0).length;
  const rest = state.marks.size - outliers;
  const parts = [];
  if (outliers) parts.push(`${whole(outliers)} as an outlier`);
  if (rest) parts.push(`${whole(rest)} as a class`);
  const how = touched ? "Tap a picture to say what it is." : "Choose a picture and press O for an outlier, K if its class is right, or a class’s number.";
  setText($("marked"), state.marks.size ? `${whole(state.marks.size)} marked: ${parts.join(", ")}.` : `Nothing marked yet. ${how}`);
  $("download-decisions").disabled = !state.marks.size;
  $("clear").hidden = !state.marks.size;
}

$("clear").addEventListener("click", () => {
  if (!confirm(`Take back all ${whole(state.marks.size)} marks?`)) return;
  state.marks.clear();
  storage.set(marksKey, null);
  announce("All marks taken back.");
  changed();
});

// --- downloads ---

const cell = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
// A spreadsheet runs a cell that begins with one of these. As a path, ./=a.jpg is the same file.
const pathCell = (name) => cell(/^[=+\-@\t\r]/.test(name) ? `./${name}` : name);

function decisionsCsv() {
  const rows = [...state.marks].sort(([a], [b]) => a - b);
  const lines = rows.map(([i, mark]) => [pathCell(names[i]), cell(mark < 0 ? "" : D.classes[mark]), mark < 0].join(","));
  return ["path,label,is_outlier", ...lines, ""].join("\n");
}

function predictionsCsv() {
  const limit = limitOf(state.threshold);
  const classes = D.classes.map(cell);
  const lines = ["path,label,confidence,outlier_score,is_outlier"];
  for (let i = 0; i < N; i++) lines.push(`${pathCell(names[i])},${classes[label[i]]},${plain(confidence[i])},${plain(score[i])},${score[i] > limit}`);
  return lines.join("\n") + "\n";
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
$("download-decisions").addEventListener("click", () => download("decisions.csv", decisionsCsv()));
$("download-predictions").addEventListener("click", () => download("predictions.csv", predictionsCsv()));

// --- enlarged ---

const viewer = $("viewer");
const view = { pictures: [], at: 0 };
const viewed = () => view.pictures[view.at];

const markButtons = [
  { mark: OUTLIER, key: "o", text: "Outlier" },
  ...D.classes.map((text, c) => ({ mark: c, key: c < 9 ? String(c + 1) : "", text })),
].map(({ mark, key, text }) => {
  const button = element("button", { type: "button", className: mark < 0 ? "mark-outlier" : "mark-known" }, text);
  if (key) button.append(" ", element("kbd", { textContent: key.toUpperCase() }));
  button.addEventListener("click", () => setMark(viewed(), state.marks.get(viewed()) === mark ? undefined : mark));
  return { mark, button };
});
$("viewer-marks").append(...markButtons.map(({ button }) => button));

// Of many classes, a few letters find one.
const classFilter = $("class-filter");
classFilter.hidden = K <= 24;
$("viewer-marks").classList.toggle("many", K > 24);
function filterClasses() {
  const words = classFilter.value.trim().toLowerCase();
  for (const { mark, button } of markButtons) button.hidden = mark >= 0 && !D.classes[mark].toLowerCase().includes(words);
}
classFilter.addEventListener("input", filterClasses);
classFilter.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const first = markButtons.find(({ mark, button }) => mark >= 0 && !button.hidden);
  if (!first) return;
  event.preventDefault();
  setMark(viewed(), first.mark);
  first.button.focus();
});
const chooseClass = () => (K > 24 ? classFilter : markButtons[0].button).focus();

function enlarge(pictures, at) {
  classFilter.value = "";
  filterClasses();
  view.pictures = pictures;
  view.at = at;
  view.from = document.activeElement;
  viewer.showModal();
  showPicture();
  changed();
}

function showPicture() {
  const i = viewed();
  const picture = $("viewer-picture");
  const data = thumbnail.get(i);
  picture.hidden = data === undefined;
  $("viewer-none").hidden = data !== undefined;
  if (data === undefined) picture.removeAttribute("src");
  else picture.src = `data:${T.mime};base64,${data}`;
  picture.alt = names[i];
  setText($("viewer-title"), names[i]);
  const link = $("viewer-open");
  link.hidden = D.original === null;
  if (D.original !== null) {
    link.href = D.original + names[i].split("/").map(encodeURIComponent).join("/");
    showOriginal(i, link.href);
  }
  $("viewer-before").disabled = view.at === 0;
  $("viewer-next").disabled = view.at === view.pictures.length - 1;
}

// Opened from disk, the file itself may still lie where it was; the thumbnail stays if not.
function showOriginal(i, address) {
  if (location.protocol !== "file:") return;
  const original = new Image();
  original.onload = () => {
    if (viewed() !== i || !viewer.open) return;
    $("viewer-picture").src = original.src;
    $("viewer-picture").hidden = false;
    $("viewer-none").hidden = true;
  };
  original.src = address;
}

function showViewer() {
  if (!viewer.open) return;
  const i = viewed();
  const aside = isAside(i, state.threshold);
  const verdict = $("viewer-verdict");
  verdict.dataset.side = aside ? "aside" : "kept";
  const sure = `${D.classes[label[i]]} ${percent(confidence[i])}`;
  setText(verdict, aside ? `Put aside · nearest class ${sure}` : `Kept · ${sure}`);
  const rank = N - upTo(sortedScores, score[i]) + 1;
  setText($("viewer-place"), `Outlier score ${short(score[i])}, number ${whole(rank)} of ${whole(N)} from the most outlying.`);
  for (const { mark, button } of markButtons) button.setAttribute("aria-pressed", String(state.marks.get(i) === mark));
}

function turn(by) {
  const to = view.at + by;
  if (to < 0 || to >= view.pictures.length) return;
  view.at = to;
  showPicture();
  showViewer();
  announce(names[viewed()]);
}

$("viewer-close").addEventListener("click", () => viewer.close());
$("viewer-before").addEventListener("click", () => turn(-1));
$("viewer-next").addEventListener("click", () => turn(1));
viewer.addEventListener("close", () => view.from?.isConnected && view.from.focus());

listeners.push(showMarks, showViewer);
