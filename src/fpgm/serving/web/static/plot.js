// A line plot with a logarithmic axis, as SVG.

const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

/** Draw curves `{ name, kind, values }` into an element, as wide as it is. */
export function drawCurves(element, curves) {
  const width = Math.max(element.clientWidth, 260), height = Math.min(340, Math.max(220, width / 2));
  const box = { left: 60, right: width - 8, top: 8, bottom: height - 40 };
  const count = curves[0].values.length;
  const positive = curves.flatMap((curve) => curve.values).filter((value) => value > 1e-6);
  const low = Math.floor(Math.log10(Math.min(...positive))), high = Math.ceil(Math.log10(Math.max(...positive)));
  const x = (r) => box.left + ((box.right - box.left) * r) / (count - 1);
  const y = (value) => box.bottom - ((box.bottom - box.top) * (Math.log10(value) - low)) / (high - low || 1);
  const names = curves.map((curve) => curve.name).join(", ");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Share of amplitude at each frequency radius, 0 to ${count - 1}: ${names}`);
  drawAxes(svg, box, { x, y, low, high, count, height });
  for (const { kind, values } of curves) {
    let path = "";
    values.forEach((value, r) => {
      const seen = value >= 10 ** low;
      const joined = seen && path !== "" && values[r - 1] >= 10 ** low;
      if (seen) path += `${joined ? "L" : "M"}${x(r).toFixed(1)} ${y(value).toFixed(1)}`;
    });
    add(svg, "path", { class: `curve ${kind}`, d: path });
  }
  const legend = document.createElement("ul");
  legend.className = "legend";
  for (const { name, kind } of curves) {
    const item = document.createElement("li");
    item.className = kind;
    item.textContent = name;
    legend.append(item);
  }
  element.replaceChildren(legend, svg);
}

function drawAxes(svg, box, { x, y, low, high, count, height }) {
  for (let power = low; power <= high; power++) {
    const level = y(10 ** power);
    add(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: level, y2: level });
    const label = power >= -2 ? `${10 ** (power + 2)} %` : `0.${"0".repeat(-power - 3)}1 %`;
    add(svg, "text", { x: box.left - 6, y: level + 4, "text-anchor": "end" }, label);
  }
  const step = [2, 4, 8, 16, 32, 64, 128, 256].find((size) => count / size <= 8) ?? 512;
  for (let r = 0; r < count; r += step) {
    add(svg, "line", { class: "grid", x1: x(r), x2: x(r), y1: box.bottom, y2: box.bottom + 4 });
    add(svg, "text", { x: x(r), y: box.bottom + 18, "text-anchor": "middle" }, r);
  }
  const middle = (box.left + box.right) / 2;
  add(svg, "text", { x: middle, y: height - 4, "text-anchor": "middle" }, "frequency radius r (cycles per frame)");
}
