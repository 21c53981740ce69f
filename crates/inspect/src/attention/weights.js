// Weights, colours and what of them is shown: nothing here needs a page.
// White to dark blue, as in the drawings; by night from the dark ground to bright.
const LIGHT = [
  [255, 255, 255], [225, 236, 247], [195, 217, 238], [156, 195, 226], [110, 168, 211],
  [68, 137, 193], [34, 104, 168], [13, 71, 136], [8, 40, 92],
];
const DARK = [[30, 30, 34], [28, 62, 104], [36, 110, 168], [92, 170, 214], [176, 220, 236], [250, 252, 255]];
const ABSENT = [136, 136, 136];
const UNIT = 10000;
const MEAN = -1;
const LARGEST_CELL = 40;

// The rows of the data, in ten-thousandths and without their last zeros, as one array; null is not a number.
function unpack(rows, height, width) {
  const values = new Float32Array(height * width);
  for (let row = 0; row < height && row < rows.length; row++) {
    const weights = rows[row];
    for (let column = 0; column < width && column < weights.length; column++) {
      values[row * width + column] = weights[column] === null ? NaN : weights[column] / UNIT;
    }
  }
  return measured(height, width, values);
}

// A map with the largest of its weights, and the usual one: that which nine queries of ten stay below. The first queries
// of a decoder see little, so their weights would make all others pale.
function measured(height, width, values) {
  const rows = [];
  for (let row = 0; row < height; row++) rows.push(largest(values.subarray(row * width, (row + 1) * width)));
  rows.sort((a, b) => a - b);
  const most = height > 0 ? rows[height - 1] : 0;
  const usual = height > 0 ? rows[Math.ceil(0.9 * height) - 1] : 0;
  return { height: height, width: width, values: values, largest: most, usual: usual || most };
}

function largest(values) {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    if (values[i] > most) most = values[i];
  }
  return most;
}

// The mean of maps of one shape.
function mean(maps) {
  const first = maps[0];
  const values = new Float32Array(first.values.length);
  for (const map of maps) {
    for (let i = 0; i < values.length; i++) values[i] += map.values[i] / maps.length;
  }
  return measured(first.height, first.width, values);
}

// A map of at most `side` cells a side. The largest of the cells that fall together: a thin diagonal stays.
function pooled(map, side) {
  const height = Math.min(map.height, side);
  const width = Math.min(map.width, side);
  const values = new Float32Array(height * width).fill(NaN);
  for (let row = 0; row < map.height; row++) {
    const to = Math.floor(row * height / map.height) * width;
    for (let column = 0; column < map.width; column++) {
      const at = to + Math.floor(column * width / map.width);
      const value = map.values[row * map.width + column];
      if (!(values[at] >= value) && value === value) values[at] = value;
    }
  }
  return { height: height, width: width, values: values, largest: map.largest, usual: map.usual };
}

// 256 colours between the stops.
function ramp(stops) {
  const colours = [];
  for (let i = 0; i < 256; i++) {
    const place = i / 255 * (stops.length - 1);
    const index = Math.min(Math.floor(place), stops.length - 2);
    const part = place - index;
    colours.push(stops[index].map((from, c) => Math.round(from + (stops[index + 1][c] - from) * part)));
  }
  return colours;
}

function colourOf(colours, value, most) {
  if (value !== value) return ABSENT;
  const place = most > 0 ? value / most : 0;
  return colours[Math.max(0, Math.min(255, Math.round(place * 255)))];
}

// Black or white, whichever reads better upon a colour.
function inkUpon(colour) {
  return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 140 ? "#111" : "#fff";
}

function css(colour) {
  return "rgb(" + colour[0] + "," + colour[1] + "," + colour[2] + ")";
}

function said(value) {
  return value === value ? value.toFixed(4) : "no value";
}

// The columns with the largest weights of a row, the largest first.
function strongest(map, row, count) {
  const found = [];
  for (let column = 0; column < map.width; column++) {
    if (map.values[row * map.width + column] > 0) found.push(column);
  }
  const weight = (column) => map.values[row * map.width + column];
  return found.sort((a, b) => weight(b) - weight(a) || a - b).slice(0, count);
}

// Inputs in their order, each with its layers.
function inputsOf(data) {
  const inputs = [];
  for (const group of data.groups) {
    const name = group.input || data.title;
    let input = inputs.find((known) => known.name === name);
    if (!input) {
      input = { name: name, groups: [] };
      inputs.push(input);
    }
    input.groups.push(group);
  }
  return inputs;
}

// The size of cells at first: all columns in the room there is, but never too small to read their labels.
function firstCell(columns, rows, room) {
  const fit = Math.floor(Math.min(room / Math.max(columns, 1), 720 / Math.max(rows, 1)));
  return Math.max(16, Math.min(LARGEST_CELL, fit));
}

// Which cells a window of the map shows: [first, beyond the last].
function visible(scroll, room, cell, count) {
  const first = Math.max(0, Math.min(count, Math.floor(scroll / cell)));
  return [first, Math.max(first, Math.min(count, Math.ceil((scroll + room) / cell)))];
}

// Every so many labels, and the chosen one instead of its neighbours.
function labelled(range, least, chosen) {
  const every = Math.max(1, Math.ceil(least));
  const shown = [];
  for (let index = Math.ceil(range[0] / every) * every; index < range[1]; index += every) {
    if (chosen < 0 || index === chosen || Math.abs(index - chosen) >= every) shown.push(index);
  }
  if (chosen >= range[0] && chosen < range[1] && shown.indexOf(chosen) < 0) shown.push(chosen);
  return shown;
}
