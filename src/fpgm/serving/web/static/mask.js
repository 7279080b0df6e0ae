// From a probability map (W x H bytes, 255 stands for 1) to regions and their pictures; nothing here knows the page.

/**
 * Connected regions of the pixels of at least `cut`, corners included, the largest first, and the runs they are made of;
 * both without regions of fewer than `least` pixels.
 */
export function findRegions(map, width, height, cut, least = 0) {
  const runs = { row: [], start: [], end: [] }; // pixels start … end - 1 of a row
  const parent = [];
  const root = (i) => {
    while (parent[i] !== i) i = parent[i] = parent[parent[i]];
    return i;
  };
  let before = 0; // first run of the row above
  for (let y = 0; y < height; y++) {
    const first = parent.length;
    let above = before;
    for (let x = 0, offset = y * width; x < width; x++) {
      if (map[offset + x] < cut) continue;
      const start = x;
      while (x < width && map[offset + x] >= cut) x++;
      const run = parent.push(parent.length) - 1;
      runs.row.push(y);
      runs.start.push(start);
      runs.end.push(x);
      while (above < first && runs.end[above] < start) above++;
      for (let a = above; a < first && runs.start[a] <= x; a++) parent[root(run)] = root(a);
    }
    before = first;
  }
  const roots = parent.map((_, i) => root(i)), found = measure(map, width, runs, roots);
  const kept = roots.map((key) => found.get(key).area >= least);
  const regions = [...found.values()].filter(({ area }) => area >= least).map(describe);
  regions.sort((a, b) => b.area - a.area || a.box[0] - b.box[0] || a.box[1] - b.box[1]);
  for (const name in runs) runs[name] = runs[name].filter((_, i) => kept[i]);
  return { runs, regions };
}

const describe = ({ area, sum, left, top, right, bottom }) => ({
  area, confidence: sum / area / 255, box: [left, top, right - left, bottom - top],
});

function measure(map, width, runs, roots) {
  const found = new Map();
  roots.forEach((key, i) => {
    const y = runs.row[i], start = runs.start[i], end = runs.end[i];
    let sum = 0;
    for (let p = y * width + start; p < y * width + end; p++) sum += map[p];
    const region = found.get(key) ?? { area: 0, sum: 0, left: start, top: y, right: end, bottom: y + 1 };
    region.area += end - start;
    region.sum += sum;
    region.left = Math.min(region.left, start);
    region.right = Math.max(region.right, end);
    region.top = Math.min(region.top, y);
    region.bottom = Math.max(region.bottom, y + 1);
    found.set(key, region);
  });
  return found;
}

/** Tint the runs of RGBA pixels and draw their outline `thick` pixels wide. */
export function paint(pixels, map, width, height, cut, runs, { colour, tint, thick }) {
  const blend = (p, share) => {
    for (let c = 0; c < 3; c++) pixels[4 * p + c] += share * (colour[c] - pixels[4 * p + c]);
  };
  const reach = thick * width;
  runs.row.forEach((y, i) => {
    const start = runs.start[i], end = runs.end[i], rim = y < thick || y + thick >= height;
    for (let x = start, p = y * width + start; x < end; x++, p++) {
      const edge = rim || x - thick < start || x + thick >= end || map[p - reach] < cut || map[p + reach] < cut;
      if (edge) blend(p, 1);
      else if (tint) blend(p, tint);
    }
  });
}

/** A table of 256 colours from a few, evenly spaced. */
export function colourTable(anchors) {
  const table = new Uint8ClampedArray(256 * 3);
  for (let level = 0; level < 256; level++) {
    const place = (level / 255) * (anchors.length - 1), low = Math.min(Math.floor(place), anchors.length - 2);
    for (let c = 0; c < 3; c++) {
      table[3 * level + c] = anchors[low][c] + (place - low) * (anchors[low + 1][c] - anchors[low][c]);
    }
  }
  return table;
}

/** RGBA pixels of a map of bytes. */
export function colour(map, table) {
  const pixels = new Uint8ClampedArray(4 * map.length);
  for (let p = 0; p < map.length; p++) {
    for (let c = 0; c < 3; c++) pixels[4 * p + c] = table[3 * map[p] + c];
    pixels[4 * p + 3] = 255;
  }
  return pixels;
}
