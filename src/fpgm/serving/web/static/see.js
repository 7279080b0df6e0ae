// The second tab: the frame before and after its spectrum is aligned.

import { colour, colourTable } from "./mask.js";
import { drawCurves } from "./plot.js";
import { ask, blobOf } from "./server.js";

const DIVERGING = colourTable([[33, 102, 172], [247, 247, 247], [178, 24, 43]]);
const part = (id) => document.getElementById(id);
const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`)?.value;

let frame = null; // { body, shown }: what is sent, and whether it is on the screen with the present settings
let busy = false, last = null, report = () => {};

/** Prepare the controls for a model with `priors` to choose from; `tell` shows a failure. */
export function setUp({ priors }, tell) {
  report = tell;
  for (const input of document.querySelectorAll('input[name="prior"]')) {
    input.checked = input.value === priors[0];
    input.disabled = !priors.includes(input.value);
    if (input.disabled) input.parentElement.title = "This model has no learnt prior.";
  }
  const levels = Uint8Array.from({ length: 128 }, (_, i) => 2 * i);
  part("diverging").getContext("2d").putImageData(new ImageData(colour(levels, DIVERGING), 128, 1), 0, 0);
  new ResizeObserver(() => last && drawProfiles(last)).observe(part("plot"));
}

/** Take another frame, or none; it is aligned once the tab is seen. */
export function takeFrame(blob) {
  frame = blob && { body: blob, shown: false };
}

/** The user moved something. */
export function change() {
  if (frame) frame.shown = false;
  const filter = chosen("prior") === "low-pass";
  part("aligned-title").textContent = filter ? "Filtered" : "Aligned";
  part("gamma-slider").hidden = part("reconstruction").hidden = filter;
  part("cutoff-slider").hidden = !filter;
  part("gamma-value").value = Number(part("gamma").value).toFixed(2);
  part("cutoff-value").value = part("cutoff").value;
  refresh();
}

/** Bring the tab up to date if it is seen; while an answer is under way, only the last change is sent after it. */
export async function refresh() {
  if (busy || !frame || frame.shown || part("see").hidden) return;
  busy = true;
  const asked = frame;
  asked.shown = true;
  const query = new URLSearchParams({
    prior: chosen("prior"), reconstruction: chosen("reconstruction"), gamma: part("gamma").value, cutoff: part("cutoff").value,
  });
  try {
    const answer = await ask(`api/align?${query}`, asked.body);
    asked.body = blobOf(answer.original); // small, and prepared: the next answers come sooner
    if (asked === frame) show(answer);
  } catch (error) {
    report(error);
  } finally {
    busy = false;
  }
  refresh();
}

function show(answer) {
  for (const id of ["original", "aligned", "difference"]) part(id).src = answer[id];
  part("original-size").textContent = `as the model sees it, ${answer.size} × ${answer.size}`;
  part("reach-low").textContent = `−${answer.reach}`;
  part("reach-high").textContent = `+${answer.reach}`;
  part("change").textContent = `The values, from 0 to 1, change by ${answer.change.toFixed(3)} on average.`;
  document.querySelector("#see .empty").hidden = true;
  document.querySelector("#see .result").hidden = false;
  last = answer;
  drawProfiles(answer);
}

function drawProfiles({ profile, aligned_profile, prior_profile }) {
  const curves = [
    { name: "original", kind: "own", values: profile },
    { name: prior_profile ? "aligned" : "filtered", kind: "aligned", values: aligned_profile },
  ];
  if (prior_profile) curves.push({ name: "prior", kind: "prior", values: prior_profile });
  drawCurves(part("plot"), curves);
}
