// Films: their frames at even steps of time, as pictures. The browser decodes them; a film never leaves it.

const MOST = 200; // frames of a film
const STEPS = [0.04, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300]; // seconds
const PATIENCE = 10_000; // milliseconds that the browser may take to open a film or to find a frame
const SUFFIXES = /\.(mp4|m4v|mov|webm|mkv|avi|mpe?g|wmv)$/i;
const THUMB = 48; // height of a small picture in pixels

export const isFilm = (file) => file.type.startsWith("video/") || SUFFIXES.test(file.name);

/** Open a film: its frames, each with a function that gives its picture, and a sentence about what they are.
 *
 * `limits` has the most pixels and bytes of a picture. What cannot be used is an Error with a sentence.
 */
export async function openFilm(file, limits) {
  const url = URL.createObjectURL(file);
  try {
    const [video, small] = await Promise.all([load(url), load(url)]);
    if (video.videoWidth * video.videoHeight > limits.max_pixels) {
      throw new Error(`Its frames are ${video.videoWidth} × ${video.videoHeight} pixels, more than this server takes.`);
    }
    const length = await lengthOf(video), step = STEPS.find((one) => length / one <= MOST) ?? STEPS.at(-1);
    const count = Math.min(MOST, Math.max(1, Math.ceil(length / step - 1e-6)));
    const stem = file.name.replace(/\.[^.]*$/, ""), digits = step < 0.1 ? 2 : step < 1 ? 1 : 0;
    const frames = Array.from({ length: count }, (_, i) => {
      const time = (i * step).toFixed(digits);
      return {
        name: `${file.name} at ${time} s`, saved: `${stem}-${time}s`, label: clock(i * step, digits),
        blob: (wanted) => picture(video, i * step, limits.max_bytes, wanted),
        thumb: (wanted) => thumb(small, i * step, wanted),
      };
    });
    const rest = count * step < length - 1e-6 ? ` Only its first ${(count * step).toFixed(0)} s are here.` : "";
    const about = `${file.name}: one frame every ${step} s, ${count} in all.${rest} Frames between them are not looked at; ` +
      "“fpgm predict” does them all and writes a film. The film stays in this browser: only the frames you look at are sent.";
    return { frames, about, close: () => URL.revokeObjectURL(url) };
  } catch (error) {
    URL.revokeObjectURL(url);
    throw error;
  }
}

function load(url) {
  const video = document.createElement("video");
  Object.assign(video, { muted: true, preload: "auto", playsInline: true, src: url });
  return when(video, "loadeddata").then(() => {
    if (!video.videoWidth) throw new Error(); // sound alone
    video.queue = Promise.resolve();
    return video;
  }).catch(() => {
    throw new Error("This browser cannot play it: it is damaged, or of another format. “fpgm predict” reads more formats than browsers do.");
  });
}

/** Wait for an event; an error, or too long a wait, is a rejection. */
function when(video, event) {
  return new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Error("The browser cannot find this frame of the film.")), PATIENCE);
    const end = (then) => () => {
      clearTimeout(timer);
      then();
    };
    video.addEventListener(event, end(done), { once: true });
    video.addEventListener("error", end(() => fail(new Error("The browser cannot decode this frame of the film."))), { once: true });
  });
}

/** Seconds of a film; one that was recorded by a browser says them only at its end. */
async function lengthOf(video) {
  if (!Number.isFinite(video.duration)) await seek(video, 1e6);
  return Number.isFinite(video.duration) ? video.duration : video.currentTime;
}

async function seek(video, time) {
  const there = when(video, "seeked");
  video.currentTime = time;
  await there;
}

/** Draw the frame at a time, one after the other: a film can be at one place alone. Null if it is no longer wanted. */
function draw(video, time, width, height, wanted) {
  const drawn = video.queue.then(async () => {
    if (!wanted()) return null;
    await seek(video, time + 1e-3); // within the frame that begins there
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    canvas.getContext("2d").drawImage(video, 0, 0, width, height);
    return canvas;
  });
  video.queue = drawn.catch(() => null);
  return drawn;
}

async function picture(video, time, maxBytes, wanted) {
  const canvas = await draw(video, time, video.videoWidth, video.videoHeight, wanted);
  if (!canvas) return null;
  const exact = await encode(canvas, "image/png");
  return exact.size <= maxBytes ? exact : encode(canvas, "image/jpeg");
}

const encode = (canvas, kind) => new Promise((done) => canvas.toBlob(done, kind, 0.95));

const thumb = (video, time, wanted) =>
  draw(video, time, Math.max(1, Math.round((THUMB * video.videoWidth) / video.videoHeight)), THUMB, wanted);

function clock(seconds, digits) {
  const minutes = Math.floor(seconds / 60), rest = (seconds - 60 * minutes).toFixed(digits);
  return `${minutes}:${rest.padStart(digits ? digits + 3 : 2, "0")}`;
}
