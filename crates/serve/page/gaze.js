import { fit } from "./canvas.js";
import { coloursOf } from "./drawing.js";
import { element } from "./elements.js";
import { blobOf } from "./inputs.js";
import { colourOf, largest, palette, said } from "./weights.js";

// A picture under the weights of a query. Its patches are the tokens `row,column`; pointing at one chooses it as the query.
const SIDE = 320;

export function gridPicture(root, on) {
  const canvas = root.appendChild(document.createElement("canvas"));
  canvas.className = "gaze";
  canvas.setAttribute("role", "img");
  const line = root.appendChild(element("p", "hint"));
  const context = canvas.getContext("2d");
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  let bitmap = null;
  let last = null;

  function show(seen, input) {
    bitmap = null;
    const grid = seen.layers.map((layer) => gridOf(layer.keys)).find((one) => one);
    canvas.hidden = line.hidden = !grid;
    if (!grid) return false;
    window.createImageBitmap(blobOf(input)).then((made) => {
      bitmap = made;
      draw();
    }, () => { line.textContent = "The browser cannot show this picture."; });
    return true;
  }

  function mark(layer, head, map, row) {
    last = { layer, map, row, name: head };
    draw();
  }

  function draw() {
    if (!bitmap) return;
    const scale = SIDE / Math.max(bitmap.width, bitmap.height);
    const [wide, high] = [Math.round(bitmap.width * scale), Math.round(bitmap.height * scale)];
    fit(canvas, context, wide * 2 + 16, high);
    context.imageSmoothingEnabled = false;
    context.drawImage(bitmap, 0, 0, wide, high);
    const grid = last && gridOf(last.layer.keys);
    if (!grid) return;
    const row = last.row >= 0 ? last.row : 0;
    const weights = last.map.values.subarray(row * last.map.width, (row + 1) * last.map.width);
    const most = largest(weights.filter((_, at) => grid.cells[at]));
    const colours = coloursOf(last.map, palette(night.matches));
    const [w, h] = [wide / grid.columns, high / grid.rows];
    context.globalAlpha = 0.35;
    context.drawImage(bitmap, wide + 16, 0, wide, high);
    grid.cells.forEach((cell, at) => {
      if (!cell) return;
      context.globalAlpha = 0.75;
      context.fillStyle = "rgb(" + colourOf(colours, weights[at], most).join(",") + ")";
      context.fillRect(wide + 16 + cell[1] * w, cell[0] * h, w, h);
    });
    context.globalAlpha = 1;
    const own = gridOf(last.layer.queries);
    if (own && own.cells[row]) {
      context.strokeStyle = getComputedStyle(root).getPropertyValue("--accent");
      context.lineWidth = 2;
      for (const left of [0, wide + 16]) context.strokeRect(left + own.cells[row][1] * w + 1, own.cells[row][0] * h + 1, w - 2, h - 2);
    }
    const query = last.layer.queries[row];
    line.textContent = "Right: how much “" + query + "” attends to each place in " + last.name + ", up to " + said(most) + ". Point at a place of the picture to make it the query.";
    canvas.setAttribute("aria-label", "The picture, and how much “" + query + "” attends to each place of it");
  }

  canvas.addEventListener("pointermove", (event) => {
    const own = last && gridOf(last.layer.queries);
    if (!own) return;
    const box = canvas.getBoundingClientRect();
    const half = (box.width - 16) / 2;
    const x = (event.clientX - box.left) % (half + 16);
    const at = [Math.floor(((event.clientY - box.top) / box.height) * own.rows), Math.floor((x / half) * own.columns)];
    on.point(own.cells.findIndex((cell) => cell && cell[0] === at[0] && cell[1] === at[1]), -1);
  });
  canvas.addEventListener("pointerleave", () => on.point(-1, -1));
  night.addEventListener("change", draw);
  return { show, mark, close: () => night.removeEventListener("change", draw) };
}

const known = new WeakMap();

// Reads tokens such as `2,3` as places of a grid. Returns null if fewer than half are.
function gridOf(tokens) {
  if (!known.has(tokens)) {
    const cells = tokens.map((token) => (/^\d+,\d+$/.test(token) ? token.split(",").map(Number) : null));
    const places = cells.filter((cell) => cell);
    const most = (index) => places.reduce((largest, cell) => Math.max(largest, cell[index] + 1), 0);
    known.set(tokens, places.length * 2 > tokens.length ? { cells, rows: most(0), columns: most(1) } : null);
  }
  return known.get(tokens);
}
