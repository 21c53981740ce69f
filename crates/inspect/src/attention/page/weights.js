// Weights and colours. Nothing here needs a page.
export { ABSENT, LARGEST_CELL, MEAN, UNIT, absent, colourOf, css, difference, firstCell, inkUpon, inputsOf, labelled, largest, mean, measured, palette, pooled, said, strongest, unpack, visible };

// Colours from white to dark blue, as in the figures; in dark mode from the dark background to bright.
const LIGHT = [
  [255, 255, 255], [225, 236, 247], [195, 217, 238], [156, 195, 226], [110, 168, 211],
  [68, 137, 193], [34, 104, 168], [13, 71, 136], [8, 40, 92],
];
const DARK = [[30, 30, 34], [28, 62, 104], [36, 110, 168], [92, 170, 214], [176, 220, 236], [250, 252, 255]];
// Colours of signed values, from blue through the background to red, as in the figures.
const LIGHT_SIGNED = [
  [31, 78, 156], [74, 127, 193], [143, 180, 220], [207, 223, 240], [255, 255, 255],
  [247, 213, 204], [232, 156, 140], [207, 95, 85], [161, 29, 46],
];
const DARK_SIGNED = [[150, 200, 255], [74, 127, 193], [38, 64, 104], [30, 30, 34], [110, 44, 40], [207, 95, 85], [255, 176, 160]];
const ABSENT = [136, 136, 136];
const UNIT = 10000;
const MEAN = -1;
const LARGEST_CELL = 40;

// Returns a map from rows in ten-thousandths without trailing zeros; null becomes NaN.
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

// Adds to a map its largest weight and the 90th percentile of the queries' largest weights, at which colours usually end: the
// first queries of a decoder see few keys, and their large weights would make all others pale.
function measured(height, width, values) {
  const rows = [];
  for (let row = 0; row < height; row++) rows.push(largest(values.subarray(row * width, (row + 1) * width)));
  rows.sort((a, b) => a - b);
  const most = height > 0 ? rows[height - 1] : 0;
  const usual = height > 0 ? rows[Math.ceil(0.9 * height) - 1] : 0;
  return { height: height, width: width, values: values, largest: most, usual: usual || most };
}

// Returns the largest absolute value.
function largest(values) {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    const value = Math.abs(values[i]);
    if (value > most) most = value;
  }
  return most;
}

// Returns a map whose weights are not known yet. `like` is a smaller map with its scale.
function absent(height, width, like) {
  const values = new Float32Array(height * width).fill(NaN);
  return { height: height, width: width, values: values, largest: like.largest, usual: like.usual };
}

// Returns the map of `after − before`, or null if their shapes differ.
function difference(after, before) {
  if (after.height !== before.height || after.width !== before.width) return null;
  const map = measured(after.height, after.width, after.values.map((value, at) => value - before.values[at]));
  map.isSigned = true;
  return map;
}

// Returns the mean of maps of equal shape.
function mean(maps) {
  const first = maps[0];
  const values = new Float32Array(first.values.length);
  for (const map of maps) {
    for (let i = 0; i < values.length; i++) values[i] += map.values[i] / maps.length;
  }
  return measured(first.height, first.width, values);
}

// Shrinks a map to at most `side` cells a side, by the maximum of merged cells, which keeps a thin diagonal visible.
function pooled(map, side) {
  const height = Math.min(map.height, side);
  const width = Math.min(map.width, side);
  const values = new Float32Array(height * width).fill(NaN);
  for (let row = 0; row < map.height; row++) {
    const to = Math.floor(row * height / map.height) * width;
    for (let column = 0; column < map.width; column++) {
      const at = to + Math.floor(column * width / map.width);
      const value = map.values[row * map.width + column];
      if (value === value && !(Math.abs(values[at]) >= Math.abs(value))) values[at] = value;
    }
  }
  return { height: height, width: width, values: values, largest: map.largest, usual: map.usual, isSigned: map.isSigned };
}

// Returns the colours of weights and of differences, for a light or a dark page.
function palette(isDark) {
  return {
    weights: { list: ramp(isDark ? DARK : LIGHT), isSigned: false },
    differences: { list: ramp(isDark ? DARK_SIGNED : LIGHT_SIGNED), isSigned: true },
  };
}

// Interpolates 256 colours between the stops.
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
  const share = most > 0 ? value / most : 0;
  const place = colours.isSigned ? (share + 1) / 2 : share;
  return colours.list[Math.max(0, Math.min(255, Math.round(place * 255)))];
}

// Returns black or white, whichever is more readable on the colour.
function inkUpon(colour) {
  return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 140 ? "#111" : "#fff";
}

function css(colour) {
  return "rgb(" + colour[0] + "," + colour[1] + "," + colour[2] + ")";
}

function said(value) {
  return value === value ? value.toFixed(4) : "no value";
}

// Returns the indices below `count` with the largest weights, in descending order.
function strongest(weight, count, most) {
  const found = [];
  for (let index = 0; index < count; index++) {
    if (Math.abs(weight(index)) > 0) found.push(index);
  }
  return found.sort((a, b) => Math.abs(weight(b)) - Math.abs(weight(a)) || a - b).slice(0, most);
}

// Returns the inputs in order, each with its layers.
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

// Returns the initial cell size: all columns fit if possible, but labels stay readable.
function firstCell(columns, rows, room) {
  const fit = Math.floor(Math.min(room / Math.max(columns, 1), 560 / Math.max(rows, 1)));
  return Math.max(16, Math.min(LARGEST_CELL, fit));
}

// Returns the range of visible cells, [first, last + 1].
function visible(scroll, room, cell, count) {
  const first = Math.max(0, Math.min(count, Math.floor(scroll / cell)));
  return [first, Math.max(first, Math.min(count, Math.ceil((scroll + room) / cell)))];
}

// Returns which labels to show: every n-th, but the chosen one instead of its neighbours.
function labelled(range, least, chosen) {
  const every = Math.max(1, Math.ceil(least));
  const shown = [];
  for (let index = Math.ceil(range[0] / every) * every; index < range[1]; index += every) {
    if (chosen < 0 || index === chosen || Math.abs(index - chosen) >= every) shown.push(index);
  }
  if (chosen >= range[0] && chosen < range[1] && shown.indexOf(chosen) < 0) shown.push(chosen);
  return shown;
}
