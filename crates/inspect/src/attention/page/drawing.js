import { colourOf, inkUpon, labelled, pooled } from "./weights.js";
export { LABEL_FONT, coloursOf, drawMap, drawSmall, layOut, shortened };

// Draws maps on canvases. Only the visible part is drawn, so the number of tokens does not affect speed.
const LABEL_FONT = "12px DejaVu Sans, Verdana, sans-serif";
const NUMBER_FONT = "11px DejaVu Sans, Verdana, sans-serif";
const LONGEST_LABEL = 130;
const ANGLE = 55 * Math.PI / 180;

// Returns an image of part of a map, with one pixel per cell.
function pixels(map, rows, columns, most, colours) {
  const image = new ImageData(columns[1] - columns[0], rows[1] - rows[0]);
  let at = 0;
  for (let row = rows[0]; row < rows[1]; row++) {
    for (let column = columns[0]; column < columns[1]; column++) {
      const colour = colourOf(colours, map.values[row * map.width + column], most);
      image.data[at] = colour[0];
      image.data[at + 1] = colour[1];
      image.data[at + 2] = colour[2];
      image.data[at + 3] = 255;
      at += 4;
    }
  }
  return image;
}

// Returns the colours of a palette that suit a map.
function coloursOf(map, palette) {
  return map.isSigned ? palette.differences : palette.weights;
}

// Draws a whole map as a thumbnail.
function drawSmall(canvas, map, side, palette) {
  const part = pooled(map, 2 * side);
  if (part.height === 0 || part.width === 0) return;
  canvas.width = part.width;
  canvas.height = part.height;
  const image = pixels(part, [0, part.height], [0, part.width], part.usual, coloursOf(map, palette));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function shortened(context, text) {
  context.font = LABEL_FONT;
  if (context.measureText(text).width <= LONGEST_LABEL) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && context.measureText(letters.join("") + "…").width > LONGEST_LABEL) letters.pop();
  return letters.join("") + "…";
}

// Returns the labels of a layer and the space they need: left of the map, above it, and beyond its right edge.
function layOut(context, layer) {
  const rows = layer.queries.map((token) => shortened(context, token));
  const columns = layer.keys.map((token) => shortened(context, token));
  const widest = (labels) => labels.reduce((most, label) => Math.max(most, context.measureText(label).width), 20);
  const above = widest(columns);
  return {
    rows: rows,
    columns: columns,
    left: Math.ceil(widest(rows)) + 12,
    top: Math.ceil(above * Math.sin(ANGLE)) + 16,
    beyond: Math.ceil(above * Math.cos(ANGLE)) + 8,
  };
}

// Draws the visible part of a map. `port` is that part and its position; `look` has cell, most, palette, row, column, ink and
// accent.
function drawMap(context, scratch, map, place, port, look) {
  context.clearRect(0, 0, port.wide, port.high);
  if (map.width === 0 || map.height === 0) return;
  context.save();
  context.beginPath();
  context.rect(place.left, place.top, port.wide - place.left, port.high - place.top);
  context.clip();
  drawCells(context, scratch, map, port, look);
  if (look.cell >= 8) drawGrid(context, port, look.cell);
  if (look.cell >= 32) drawNumbers(context, map, port, look);
  drawChosen(context, map, port, look);
  context.restore();
  drawRowLabels(context, place, port, look);
  drawColumnLabels(context, place, port, look);
}

function drawCells(context, scratch, map, port, look) {
  const [rows, columns] = [port.rows, port.columns];
  if (rows[0] === rows[1] || columns[0] === columns[1]) return;
  scratch.width = columns[1] - columns[0];
  scratch.height = rows[1] - rows[0];
  scratch.getContext("2d").putImageData(pixels(map, rows, columns, look.most, coloursOf(map, look.palette)), 0, 0);
  const [x, y] = [port.x + columns[0] * look.cell, port.y + rows[0] * look.cell];
  context.imageSmoothingEnabled = false;
  context.drawImage(scratch, x, y, scratch.width * look.cell, scratch.height * look.cell);
}

function drawGrid(context, port, cell) {
  const [rows, columns] = [port.rows, port.columns];
  context.strokeStyle = "rgba(128,128,128,0.25)";
  context.lineWidth = 1;
  context.beginPath();
  for (let column = columns[0]; column <= columns[1]; column++) {
    context.moveTo(port.x + column * cell + 0.5, port.y + rows[0] * cell);
    context.lineTo(port.x + column * cell + 0.5, port.y + rows[1] * cell);
  }
  for (let row = rows[0]; row <= rows[1]; row++) {
    context.moveTo(port.x + columns[0] * cell, port.y + row * cell + 0.5);
    context.lineTo(port.x + columns[1] * cell, port.y + row * cell + 0.5);
  }
  context.stroke();
}

function drawNumbers(context, map, port, look) {
  context.font = NUMBER_FONT;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let row = port.rows[0]; row < port.rows[1]; row++) {
    for (let column = port.columns[0]; column < port.columns[1]; column++) {
      const value = map.values[row * map.width + column];
      if (!(Math.abs(value) >= 0.005)) continue;
      context.fillStyle = inkUpon(colourOf(coloursOf(map, look.palette), value, look.most));
      context.fillText(value.toFixed(2), port.x + (column + 0.5) * look.cell, port.y + (row + 0.5) * look.cell);
    }
  }
}

// Outlines the chosen row and column without covering their cells.
function drawChosen(context, map, port, look) {
  const cell = look.cell;
  const line = cell >= 8 ? 2 : 1;
  const outline = (x, y, wide, high) =>
    context.strokeRect(port.x + x - line / 2, port.y + y - line / 2, wide + line, high + line);
  context.strokeStyle = look.accent;
  context.lineWidth = line;
  if (look.row >= 0) outline(0, look.row * cell, map.width * cell, cell);
  if (look.column >= 0) outline(look.column * cell, 0, cell, map.height * cell);
}

function drawRowLabels(context, place, port, look) {
  context.save();
  context.beginPath();
  context.rect(0, place.top - 6, place.left, port.high - place.top + 6);
  context.clip();
  context.font = LABEL_FONT;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const index of labelled(port.rows, 13 / look.cell, look.row)) {
    context.fillStyle = index === look.row ? look.accent : look.ink;
    context.fillText(place.rows[index], place.left - 6, port.y + (index + 0.5) * look.cell);
  }
  context.restore();
}

function drawColumnLabels(context, place, port, look) {
  context.save();
  context.beginPath();
  context.rect(place.left - 4, 0, port.wide - place.left + 4, place.top);
  context.clip();
  context.font = LABEL_FONT;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const index of labelled(port.columns, 12.5 / (look.cell * Math.sin(ANGLE)), look.column)) {
    context.save();
    context.translate(port.x + (index + 0.5) * look.cell, place.top - 6);
    context.rotate(-ANGLE);
    context.fillStyle = index === look.column ? look.accent : look.ink;
    context.fillText(place.columns[index], 0, 0);
    context.restore();
  }
  context.restore();
}
