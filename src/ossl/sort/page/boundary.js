// The histogram, the slider under it, and what is counted on either side.

const BINS = 72;
const HEIGHT = 100;

// The slider runs over all but the far tails; the tails are in the first and the last bar.
const range = (() => {
  const finite = sortedScores.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  const at = (part) => finite[Math.round(part * (finite.length - 1))];
  let [low, high] = [Math.min(at(0.002), D.runThreshold, D.threshold), Math.max(at(0.998), D.runThreshold, D.threshold)];
  if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
  const room = 0.02 * (high - low);
  return [low - room, high + room];
})();

// Steps of 1, 2 or 5 times a power of ten, about a thousand of them, so that every place is a
// number that is easily written down.
const stepSize = (() => {
  const rough = (range[1] - range[0]) / 1000;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
})();
const decimals = Math.max(0, Math.ceil(-Math.log10(stepSize) - 1e-9));
const firstStep = Math.floor(range[0] / stepSize);
const lastStep = Math.ceil(range[1] / stepSize);
const valueAt = (step) => Number((step * stepSize).toFixed(decimals));
const [lowest, highest] = [valueAt(firstStep), valueAt(lastStep)];

const slider = $("slider");
slider.min = firstStep;
slider.max = lastStep;

const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const bars = new Float64Array(BINS);
for (const value of sortedScores) {
  if (Number.isNaN(value)) continue;
  const bin = Math.floor(((value - lowest) / (highest - lowest)) * BINS);
  bars[Math.min(BINS - 1, Math.max(0, bin))] += 1;
}
const tallest = Math.max(...bars, 1);
const drawing = [...bars]
  .map((count, i) => {
    const height = count ? Math.max(1, (count / tallest) * (HEIGHT - 6)) : 0;
    return `M${i * 10 + 1} ${HEIGHT}v${-height}h8v${height}z`;
  })
  .join("");
const [insideClip, outsideClip] = ["inside", "outside"].map((id) => {
  const box = svg("rect", { x: 0, y: 0, width: 0, height: HEIGHT });
  return { id, box, clip: svg("clipPath", { id }, box) };
});
const boundaryLine = svg("line", { y1: 0, y2: HEIGHT, class: "line" });
const ownLine = svg("line", { y1: 0, y2: HEIGHT, class: "own" });
const picture = svg(
  "svg",
  { viewBox: `0 0 ${BINS * 10} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
  insideClip.clip,
  outsideClip.clip,
  svg("path", { d: drawing, class: "known", "clip-path": "url(#inside)" }),
  svg("path", { d: drawing, class: "outlier", "clip-path": "url(#outside)" }),
  ownLine,
  boundaryLine,
);
picture.setAttribute("aria-label", "Histogram of outlier scores");
$("histogram").append(picture);
setText($("low"), short(lowest));
setText($("high"), short(highest));

const across = (value) => Math.min(1, Math.max(0, (value - lowest) / (highest - lowest))) * BINS * 10;
for (const end of ["x1", "x2"]) ownLine.setAttribute(end, across(D.runThreshold));

// --- moving it ---

function setThreshold(value) {
  if (!Number.isFinite(value)) return;
  state.threshold = value;
  changed();
}
slider.addEventListener("input", () => setThreshold(valueAt(Number(slider.value))));
$("exact").addEventListener("change", () => {
  if ($("exact").value === "") changed();
  else setThreshold(Number($("exact").value));
});
$("reset").addEventListener("click", () => {
  setThreshold(D.runThreshold);
  slider.focus();
});
function followPointer(event) {
  const box = $("histogram").getBoundingClientRect();
  const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  setThreshold(valueAt(Math.round(firstStep + part * (lastStep - firstStep))));
}
$("histogram").addEventListener("pointerdown", (event) => {
  $("histogram").setPointerCapture(event.pointerId);
  followPointer(event);
});
$("histogram").addEventListener("pointermove", (event) => {
  if (event.buttons) followPointer(event);
});

// --- what it means ---

const thresholdText = () => plain(limitOf(state.threshold));
const optionText = () => (state.threshold < 0 ? `--threshold=${thresholdText()}` : `--threshold ${thresholdText()}`);

// Broken between words only, where it can be: a break after a hyphen would look like a space.
function setCommand(node, text) {
  if (node.textContent === text) return;
  node.replaceChildren(...text.split(" ").flatMap((word, i) => [i ? " " : "", element("span", {}, word)]));
}

let saidCounts;
function showBoundary() {
  const kept = upTo(sortedScores, limitOf(state.threshold));
  const aside = N - kept;
  const shown = short(state.threshold);
  const place = across(state.threshold);
  insideClip.box.setAttribute("width", place);
  outsideClip.box.setAttribute("x", place);
  outsideClip.box.setAttribute("width", BINS * 10 - place);
  for (const end of ["x1", "x2"]) boundaryLine.setAttribute(end, place);
  const step = Math.round(state.threshold / stepSize);
  if (Number(slider.value) !== step) slider.value = step;
  if (document.activeElement !== $("exact")) $("exact").value = shown;
  setText($("kept"), whole(kept));
  setText($("aside"), whole(aside));
  const said = `${whole(kept)} kept, ${whole(aside)} put aside (${percent(aside / Math.max(N, 1))})`;
  slider.setAttribute("aria-valuetext", `${shown}: ${said}`);
  $("reset").hidden = state.threshold === D.runThreshold;
  showLede(kept, aside);
  setCommand($("sort-command"), `ossl sort ${D.command.run} --images ${D.command.images} --out ${D.command.sorted} ${optionText()}`);
  setCommand($("fit-command"), `ossl fit --corrections decisions.csv --from ${D.command.run} --out ${D.command.fitted}`);
  setText($("download-predictions"), `Download all ${whole(N)} predictions`);
  clearTimeout(saidCounts); // spoken once the slider rests
  saidCounts = setTimeout(() => setText($("counts"), `Boundary ${shown}: ${said}.`), 400);
}

function showLede(kept, aside) {
  const parts = [`${whole(kept)} kept as one of ${whole(K)} classes, ${whole(aside)} put aside (${percent(aside / Math.max(N, 1))})`];
  if (D.rejectedCount) parts.push(`${whole(D.rejectedCount)} file${D.rejectedCount === 1 ? "" : "s"} left out`);
  let text = `${parts.join(", ")}. `;
  if (D.share !== null) {
    text += `The run estimates ${percent(D.share, 0)} outliers in the pool it learned from`;
    if (D.interval) text += `, between ${percent(D.interval[0], 0)} and ${percent(D.interval[1], 0)}`;
    text += ".";
  }
  setText($("lede"), text);
}

listeners.push(showBoundary);
