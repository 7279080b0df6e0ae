// The first tab: what was found in a frame, at the threshold the slider says.

import { colour, colourTable, findRegions, paint } from "./mask.js";
import { pixelsOf, save } from "./server.js";

const VIRIDIS = colourTable([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]);
const YELLOW = [255, 212, 0], WHITE = [255, 255, 255], SHOWN = 12;
const part = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(0)} %`;
const permille = (share) => (share > 0 && share < 5e-4 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);

let frame = null; // { name, width, height, base, map, heat }
let cut = 128, runs = null, regions = [];

/** Show the answer of /api/predict. */
export async function showPrediction(answer, name) {
  const [base, levels] = await Promise.all([pixelsOf(answer.picture), pixelsOf(answer.probability)]);
  const map = new Uint8Array(answer.width * answer.height);
  for (let p = 0; p < map.length; p++) map[p] = levels.data[4 * p];
  frame = { name, width: answer.width, height: answer.height, base: base.data, map, heat: colour(map, VIRIDIS) };
  for (const id of ["overlay", "probability"]) Object.assign(part(id), { width: frame.width, height: frame.height });
  drawScale();
  update();
}

/** Forget the frame. */
export function clearPrediction() {
  frame = null;
  regions = [];
}

/** The least pixels of a polyp in this frame: the slider says them in percent of the picture. */
const leastPixels = () => Math.round((Number(part("least").value) / 100) * frame.map.length);

/** Draw and count at the threshold and the smallest area that the sliders say. */
export function update() {
  const threshold = Number(part("threshold").value), share = Number(part("least").value);
  part("threshold-value").value = threshold.toFixed(2);
  part("least-value").value = frame ? `${leastPixels().toLocaleString("en")} px` : `${share} %`;
  if (!frame) return;
  const { width, height, map } = frame;
  cut = Math.ceil(threshold * 255 - 1e-9);
  ({ runs, regions } = findRegions(map, width, height, cut, leastPixels()));
  const thick = Math.max(1, Math.round(Math.max(width, height) / 320));
  draw("overlay", frame.base, { colour: YELLOW, tint: 0.15, thick });
  draw("probability", frame.heat, { colour: WHITE, tint: 0, thick: Math.max(1, Math.round(thick / 2)) });
  if (regions.length > 1) numberRegions(thick);
  showNumbers();
}

function draw(id, base, style) {
  const pixels = new ImageData(new Uint8ClampedArray(base), frame.width, frame.height);
  paint(pixels.data, frame.map, frame.width, frame.height, cut, runs, style);
  part(id).getContext("2d").putImageData(pixels, 0, 0);
}

function numberRegions(thick) {
  const context = part("overlay").getContext("2d"), size = Math.max(9, 11 * thick);
  Object.assign(context, { font: `600 ${size}px system-ui, sans-serif`, textAlign: "center", textBaseline: "middle" });
  Object.assign(context, { lineWidth: size / 5, lineJoin: "round", strokeStyle: "#000", fillStyle: "#fff" });
  regions.slice(0, SHOWN).forEach(({ box: [left, top, width, height] }, i) => {
    const x = Math.min(Math.max(left + width / 2, size), frame.width - size);
    const y = Math.min(Math.max(top + height / 2, size), frame.height - size);
    context.strokeText(i + 1, x, y);
    context.fillText(i + 1, x, y);
  });
}

function showNumbers() {
  const total = frame.map.length, area = regions.reduce((sum, region) => sum + region.area, 0);
  const weight = regions.reduce((sum, region) => sum + region.area * region.confidence, 0);
  part("count").textContent = regions.length || "none";
  part("area").textContent = `${area.toLocaleString("en")} px, ${permille(area / total)}`;
  part("confidence").textContent = area ? percent(weight / area) : "–";
  const rows = regions.slice(0, SHOWN).map((region, i) => [
    i + 1, `${region.area.toLocaleString("en")} px`, permille(region.area / total), percent(region.confidence),
    region.box.join(", "),
  ]);
  const table = part("polyps");
  table.hidden = !rows.length;
  table.tBodies[0].replaceChildren(...rows.map(toRow));
  const more = regions.length - SHOWN, rest = more > 0 ? ` ${more} smaller ones are left out.` : "";
  table.caption.textContent = `Each connected region, the largest first. Box: left, top, width, height.${rest}`;
}

function toRow(cells) {
  const row = document.createElement("tr");
  cells.forEach((text, i) => {
    const cell = document.createElement(i ? "td" : "th");
    if (i) cell.className = "number";
    else cell.scope = "row";
    cell.textContent = text;
    row.append(cell);
  });
  return row;
}

function drawScale() {
  const levels = Uint8Array.from({ length: 128 }, (_, i) => 2 * i);
  part("scale").getContext("2d").putImageData(new ImageData(colour(levels, VIRIDIS), 128, 1), 0, 0);
}

/** Save one of the pictures, or the numbers, as they are shown. */
export async function download(what) {
  const name = `${frame.name}-${what}`;
  if (what === "numbers") return save(new Blob([numbersAsCsv()], { type: "text/csv" }), `${name}.csv`);
  const canvas = what === "overlay" ? part("overlay") : greyCanvas(what === "mask");
  const blob = await new Promise((done) => (canvas.toBlob ? canvas.toBlob(done) : canvas.convertToBlob().then(done)));
  return save(blob, `${name}.png`);
}

function greyCanvas(binary) {
  const canvas = new OffscreenCanvas(frame.width, frame.height);
  const grey = binary ? new Uint8Array(frame.map.length) : frame.map;
  if (binary) runs.row.forEach((y, i) => grey.fill(255, y * frame.width + runs.start[i], y * frame.width + runs.end[i]));
  const pixels = colour(grey, colourTable([[0, 0, 0], [255, 255, 255]]));
  canvas.getContext("2d").putImageData(new ImageData(pixels, frame.width, frame.height), 0, 0);
  return canvas;
}

function numbersAsCsv() {
  const threshold = part("threshold").value, least = leastPixels(), total = frame.map.length;
  const rows = regions.map(({ area, confidence, box }, i) =>
    [i + 1, threshold, least, area, (area / total).toFixed(6), confidence.toFixed(4), ...box].join(","));
  return ["polyp,threshold,min_area,area,share,confidence,left,top,width,height", ...rows, ""].join("\n");
}
