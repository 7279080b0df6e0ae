// The page: choosing a frame, the tabs, and what goes wrong.

import { isFilm, openFilm } from "./film.js";
import { clearPrediction, download, showPrediction, update } from "./find.js";
import * as see from "./see.js";
import { ask, askBlob } from "./server.js";

const part = (id) => document.getElementById(id);
const MOST = 500; // frames of a strip
let about = null, latest = 0, current = 0, opened = 0;
let files = []; // { name, saved, blob, label, thumb }: the frames of the strip; `blob` gives the picture
let films = []; // that are open

function say(text) {
  part("status").textContent = text;
}

function showProblem(error) {
  part("problem").textContent = error?.message ?? "";
  part("problem").hidden = !error;
}

/** Send a picture and show what was found; `name` is for messages, `saved` for the files the user saves. */
async function take({ name, saved, blob: find }) {
  const turn = ++latest;
  showProblem(null);
  say(`Looking at ${name} …`);
  try {
    const blob = await find(() => turn === latest);
    if (turn !== latest) return;
    if (about && blob.size > about.max_bytes) {
      throw new Error(`The file is over ${about.max_bytes / 2 ** 20} MB, the most this server takes.`);
    }
    const answer = await ask("api/predict?pictures=true", blob);
    if (turn !== latest) return;
    await showPrediction(answer, saved || "frame");
    document.querySelector("#find .empty").hidden = true;
    document.querySelector("#find .result").hidden = false;
    say(`Shown: ${name}, ${answer.width} × ${answer.height} pixels`);
    see.takeFrame(blob);
    see.refresh();
  } catch (error) {
    if (turn !== latest) return;
    showProblem(new Error(`${name}: ${error.message}`));
    clear(); // no result of another frame stays under the name of this one
  }
}

/** Show no result. */
function clear() {
  say("");
  clearPrediction();
  see.takeFrame(null);
  for (const panel of ["find", "see"]) {
    const [empty, result] = [".empty", ".result"].map((kind) => document.querySelector(`#${panel} ${kind}`));
    if (empty) empty.hidden = false;
    if (result) result.hidden = true;
  }
}

/** Take all files that were chosen, dropped or pasted, and show the first frame. */
async function takeFiles(list) {
  const all = [...list], turn = ++opened;
  if (!all.length) return;
  if (all.some(isFilm)) say("Opening …");
  const found = [], notes = [], problems = [], now = [];
  for (const file of all.slice(0, MOST)) {
    try {
      if (!isFilm(file)) found.push(toFrame(file));
      else {
        const film = await openFilm(file, about ?? { max_pixels: Infinity, max_bytes: Infinity });
        now.push(film);
        found.push(...film.frames);
        notes.push(film.about);
      }
    } catch (error) {
      problems.push(`${file.name}: ${error.message}`);
    }
  }
  if (turn !== opened) return now.forEach((film) => film.close()); // others were chosen meanwhile
  films.forEach((film) => film.close());
  films = now;
  showStrip(found, notes, all.length);
  if (found.length) step(0);
  else clear();
  if (problems.length) showProblem(new Error(problems.join(" ")));
}

const toFrame = (file) => ({ name: file.name || "pasted frame", saved: file.name.replace(/\.[^.]*$/, ""), blob: async () => file });

function showStrip(found, notes, count) {
  files = found.slice(0, MOST);
  part("strip").hidden = files.length < 2;
  const buttons = files.length < 2 ? [] : files.map(toButton);
  part("frames").replaceChildren(...buttons);
  part("film-note").textContent = notes.join(" ");
  part("film-note").hidden = !notes.length;
  const left = Math.max(count, found.length), few = left > MOST ? `Only the first ${MOST} of ${left} are taken. ` : "";
  part("strip-help").textContent = `${few}Arrow keys step through the frames.`;
  showThumbs(files, buttons, opened);
}

/** Put a small picture on each frame of a film, one after the other, until others are chosen. */
async function showThumbs(frames, buttons, turn) {
  for (const [i, frame] of frames.entries()) {
    if (turn !== opened) return;
    const small = buttons[i] && (await frame.thumb?.(() => turn === opened).catch(() => null));
    if (small) buttons[i].querySelector("button").prepend(small);
  }
}

function toButton(frame, i) {
  const item = document.createElement("li"), button = document.createElement("button");
  button.type = "button";
  button.textContent = frame.label ?? i + 1;
  button.title = frame.name;
  button.setAttribute("aria-label", `Frame ${i + 1}: ${frame.name}`);
  button.addEventListener("click", () => step(i));
  item.append(button);
  return item;
}

/** Show the file at a place of the strip. */
function step(place) {
  if (place < 0 || place >= files.length) return;
  current = place;
  press(null);
  const buttons = [...part("frames").querySelectorAll("button")];
  buttons.forEach((button, i) => button.setAttribute("aria-current", i === place));
  buttons[place]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  part("before").disabled = place === 0;
  part("after").disabled = place === files.length - 1;
  take(files[place]);
}

async function takeExample(name, button) {
  press(button);
  opened++;
  showStrip([], [], 0);
  await take({ name, saved: name, blob: () => askBlob(`api/examples/${name}.png`) });
}

function press(button) {
  for (const other of part("examples").querySelectorAll("button")) other.setAttribute("aria-pressed", other === button);
}

function addExample(name) {
  const button = document.createElement("button"), image = new Image(), item = document.createElement("li");
  image.src = `api/examples/${name}.png`;
  image.alt = "";
  button.type = "button";
  button.setAttribute("aria-label", `Example: ${name.replace("-", " ")}`);
  button.setAttribute("aria-pressed", "false");
  button.append(image, name.replace(/^.*-/, ""));
  button.addEventListener("click", () => takeExample(name, button));
  item.append(button);
  part("examples").append(item);
}

function selectTab(tab) {
  for (const other of document.querySelectorAll('[role="tab"]')) {
    const selected = other === tab;
    other.setAttribute("aria-selected", selected);
    other.tabIndex = selected ? 0 : -1;
    part(other.getAttribute("aria-controls")).hidden = !selected;
  }
  see.refresh();
}

function wireTabs() {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => selectTab(tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[to % tabs.length];
      selectTab(next);
      next.focus();
    });
  });
}

function wireUpload() {
  const { classList } = part("drop");
  part("file").addEventListener("change", (event) => {
    takeFiles(event.target.files);
    event.target.value = ""; // so that the same file can be taken again
  });
  document.addEventListener("paste", (event) => takeFiles(event.clipboardData.files));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      classList.toggle("over", kind === "dragover");
      if (kind === "drop") takeFiles(event.dataTransfer.files);
    });
  }
}

function wireStrip() {
  part("before").addEventListener("click", () => step(current - 1));
  part("after").addEventListener("click", () => step(current + 1));
  document.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const busy = event.target.closest?.('input, [role="tab"]'); // which have their own arrows
    if (way && !busy && files.length > 1 && !event.ctrlKey && !event.altKey && !event.metaKey) step(current + way);
  });
}

function wireControls() {
  let asked = false;
  for (const id of ["threshold", "least"]) {
    part(id).addEventListener("input", () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        update();
      });
    });
  }
  for (const button of document.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => download(button.dataset.download));
  }
  for (const input of document.querySelectorAll("#see input")) input.addEventListener("input", see.change);
}

function describe({ note, net, size, training, statistics, threshold, least_share, max_bytes, max_pixels, version, priors, examples }) {
  const method = training.method ? `${training.method}, ` : "";
  part("model").textContent = `Model: ${method}${net} at ${size} × ${size}${training.labeled ? `, ${training.labeled} labelled` : ""}${statistics ? `, ${statistics}` : ""}`;
  part("note").textContent = note;
  part("limits").textContent += `; pictures up to ${max_bytes / 2 ** 20} MB and ${(max_pixels / 1e6).toFixed(1)} million pixels`;
  part("version").textContent = `fpgm ${version}`;
  part("threshold").value = threshold;
  part("least").max = Math.max(2, 200 * least_share);
  part("least").value = 100 * least_share;
  update();
  examples.forEach(addExample);
  const able = priors.length > 0;
  document.querySelector("#see .missing").hidden = able;
  if (able) {
    see.setUp({ size, priors }, showProblem);
    see.change();
  } else {
    for (const kind of ["empty", "result"]) document.querySelector(`#see .${kind}`).remove();
  }
}

wireTabs();
wireUpload();
wireStrip();
wireControls();
try {
  about = await ask("api/about");
  describe(about);
} catch (error) {
  showProblem(error);
}
