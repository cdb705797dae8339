// What the page holds: one row a picture, packed; and the thumbnails that were kept.

const D = JSON.parse(document.getElementById("data").textContent);
const T = JSON.parse(document.getElementById("thumbnails").textContent);

function unpacked(text) {
  const bytes = atob(text);
  const array = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) array[i] = bytes.charCodeAt(i);
  return array.buffer;
}

// Each name says how much of the one before it begins with.
function decodedNames(coded) {
  const found = new Array(coded.length);
  let before = "";
  for (let i = 0; i < coded.length; i++) {
    before = before.slice(0, coded[i].charCodeAt(0) - 48) + coded[i].slice(1);
    found[i] = before;
  }
  return found;
}

const names = decodedNames(D.names);
const score = new Float32Array(unpacked(D.score));
const confidence = new Float32Array(unpacked(D.confidence));
const label = new Uint16Array(unpacked(D.label));
const N = names.length;
const K = D.classes.length;

const thumbnail = new Map();
T.rows.forEach((row, i) => thumbnail.set(row, T.pictures[i]));

const byValue = (values) => Uint32Array.from(values.keys()).sort((a, b) => values[a] - values[b] || a - b);

// Pictures by rising score; what is no number is above nothing, so it comes first.
const order = (() => {
  const key = score.some(Number.isNaN) ? score.map((x) => (Number.isNaN(x) ? -Infinity : x)) : score;
  return Uint32Array.from(score.keys()).sort((a, b) => (key[a] === key[b] ? a - b : key[a] < key[b] ? -1 : 1));
})();
const sortedScores = Float32Array.from(order, (i) => (Number.isNaN(score[i]) ? -Infinity : score[i]));
const thumbnailed = order.filter((i) => thumbnail.has(i)); // by rising score

const ofClass = D.classes.map(() => ({ scores: [], sure: [] }));
for (const i of order) ofClass[label[i]].scores.push(Number.isNaN(score[i]) ? -Infinity : score[i]);
for (const i of thumbnailed) ofClass[label[i]].sure.push(i);
for (const part of ofClass) part.sure.sort((a, b) => confidence[b] - confidence[a] || a - b);

// How many of the rising values are not above the limit.
function upTo(values, limit) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Scores are 32-bit numbers, and so is the limit they are compared with, as in `ossl sort`.
const limitOf = (threshold) => Math.fround(threshold);
const isAside = (i, threshold) => score[i] > limitOf(threshold);

// The shortest decimal that is the same 32-bit number.
function plain(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  for (let digits = 6; digits < 9; digits++) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === value) return String(text);
  }
  return String(Number(value.toPrecision(9)));
}

const whole = new Intl.NumberFormat("en").format;
const percent = (part, digits = 1) => `${(100 * part).toFixed(digits)}\u00a0%`;
const short = (value) => (Math.abs(value) >= 1000 || !Number.isFinite(value) ? plain(value) : String(Number(value.toPrecision(4))));
