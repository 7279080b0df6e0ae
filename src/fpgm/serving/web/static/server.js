// Talking to the server; every failure becomes an Error whose message is a sentence for the user.

/** Ask for JSON; a `body` makes it a POST. */
export async function ask(path, body) {
  const answer = await request(path, body);
  return answer.json();
}

/** Ask for the bytes of a picture. */
export async function askBlob(path) {
  const answer = await request(path);
  return answer.blob();
}

async function request(path, body) {
  let answer;
  try {
    answer = await fetch(path, body ? { method: "POST", body } : {});
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let detail;
  try {
    detail = JSON.parse(text).detail;
  } catch {
    detail = undefined;
  }
  throw new Error(detail ?? `The server refused the request (${answer.status}).`);
}

/** Pixels of a picture that a data URL holds, RGBA. */
export async function pixelsOf(url) {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** The file that a data URL holds. */
export function blobOf(url) {
  const [head, text] = url.split(",");
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Blob([bytes], { type: head.slice(5).split(";")[0] });
}

/** Let the user save a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
