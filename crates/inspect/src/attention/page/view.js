import { coloursOf } from "./drawing.js";
import { choice, element, fill } from "./elements.js";
import { linePanel } from "./lines.js";
import { mapPanel } from "./map.js";
import { headName, headsOf, overviewGrid } from "./overview.js";
import { tokenStrip } from "./tokens.js";
import { LARGEST_CELL, MEAN, largest, palette, said, strongest } from "./weights.js";
export { attentionView };

// The attention of one input: a grid of all heads, the tokens, and one head large, as a map or as lines.
//
// A layer is `{name, queries, keys, heads: [{head, name, note}], map(head), small(head)}`; the functions return maps, of the mean of
// the heads for −1. `show(layers, chosen)` takes `{head: name, row, shape, scale}`. `on.change` gets the same when something else is
// chosen, and `on.point(layer, name, map, row, column)` what is pointed at; both may be missing.
function attentionView(root, on) {
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const state = { layer: 0, head: 0, row: -1, column: -1, pinned: -1, shape: "map", scale: "usual" };
  let layers = [];
  let colours = palette(night.matches);
  let shown = "";
  root.tabIndex = 0;
  root.classList.add("attention");

  const layer = () => layers[state.layer];
  const map = () => layer().map(state.head);
  const activeRow = () => (state.row >= 0 ? state.row : state.pinned);

  const controls = element("div", "controls");
  const overview = overviewGrid(root, choose);
  root.appendChild(controls);
  const line = root.appendChild(element("p", "said"));
  line.setAttribute("aria-live", "polite");
  const looking = tokenStrip(root, "queries", "tokens looking", { point: (row) => point(row, -1), pin });
  const lookedAt = tokenStrip(root, "keys", "tokens", { point: (column) => point(-1, column) });
  const large = mapPanel(root, { point, pin, cell: (cell) => { size.value = cell; } });
  const lines = linePanel(root, { point, pin });
  const layerChoice = choice(controls, "layer");
  const headChoice = choice(controls, "head");
  const shapeChoice = choice(controls, "as");
  const scaleChoice = choice(controls, "colours up to");
  fill(shapeChoice, [["map", "map"], ["lines", "lines"]], state.shape);
  fill(scaleChoice, [["usual", "90 % of queries"], ["largest", "the largest weight"], ["one", "1"]], state.scale);
  const sizeLabel = controls.appendChild(element("label", "", "cell size"));
  const size = sizeLabel.appendChild(document.createElement("input"));
  size.type = "range";
  size.min = 2;
  size.max = LARGEST_CELL;
  const note = controls.appendChild(element("span", "note"));

  // Shows other layers. The chosen head stays chosen if there is one of its name.
  function show(all, wanted) {
    layers = all;
    overview.show(layers, colours);
    const found = find(wanted && wanted.head) || [0, headsOf(layers[0])[0]];
    if (wanted && wanted.shape) state.shape = wanted.shape;
    if (wanted && wanted.scale) state.scale = wanted.scale;
    shapeChoice.value = state.shape;
    scaleChoice.value = state.scale;
    choose(found[0], found[1], wanted && wanted.row);
  }

  function find(name) {
    for (let index = 0; index < layers.length; index++) {
      const head = layers[index].heads.findIndex((one) => one.name === name);
      if (head >= 0) return [index, head];
      if (name && name === layers[index].key && headsOf(layers[index])[0] === MEAN) return [index, MEAN];
    }
    return null;
  }

  function choose(index, head, row) {
    state.layer = Math.max(0, Math.min(layers.length - 1, index));
    const heads = headsOf(layer());
    state.head = heads.includes(head) ? head : head > 0 ? heads[heads.length - 1] : heads[0];
    fill(layerChoice, layers.map((one, at) => [at, one.name]), state.layer);
    fill(headChoice, heads.map((at) => [at, headName(layer(), at)]), state.head);
    overview.mark(state.layer, state.head);
    note.textContent = (state.head !== MEAN && layer().heads[state.head].note) || "";
    showTokens();
    if (row !== undefined && row < layer().queries.length) state.pinned = row;
    refresh();
    change();
  }

  function change() {
    if (on && on.change) on.change({ head: chosenName(), row: state.pinned, shape: state.shape, scale: state.scale });
  }

  // The name of the chosen head, or of the layer for the mean of its heads.
  function chosenName() {
    return state.head === MEAN ? layer().key || "" : layer().heads[state.head].name;
  }

  // Layers with the same tokens keep the chosen query.
  function showTokens() {
    const tokens = JSON.stringify([layer().queries, layer().keys]);
    if (tokens === shown) return;
    shown = tokens;
    state.row = state.column = state.pinned = -1;
    looking.show(layer().queries);
    lookedAt.show(layer().keys);
  }

  function refresh() {
    if (layers.length === 0) return;
    const one = map();
    const look = { palette: colours, most: state.scale === "one" ? 1 : one[state.scale] };
    large.element.hidden = state.shape !== "map";
    lines.element.hidden = state.shape !== "lines";
    sizeLabel.hidden = state.shape !== "map";
    large.element.setAttribute("aria-label", "Attention map of " + headName(layer(), state.head) + ". Arrow keys move from cell to cell, Enter keeps the query.");
    if (state.shape === "map") large.show(one, layer(), look);
    else lines.show(one, layer(), look);
    mark();
  }

  // Shows which query and key are pointed at.
  function mark() {
    const one = map();
    const row = activeRow();
    const weights = row < 0 ? null : one.values.subarray(row * one.width, (row + 1) * one.width);
    // A row is shaded up to its own largest weight, unless all maps use the scale up to 1.
    lookedAt.shade(weights, state.scale === "one" || !weights ? 1 : largest(weights), coloursOf(one, colours));
    lookedAt.mark(row >= 0 || state.shape === "lines" ? state.column : -1);
    looking.mark(row);
    line.textContent = sentence(one, row);
    if (on && on.point) on.point(layer(), chosenName(), one, row, state.column);
    if (state.shape === "map") large.mark(row, state.column);
    else lines.mark(state.row < 0 && state.column >= 0 ? -1 : row, state.column);
  }

  function sentence(one, row) {
    if (state.row < 0 && state.column >= 0) {
      const found = strongestOf(one, (at) => at * one.width + state.column, one.height, layer().queries);
      return "“" + layer().keys[state.column] + "” (" + (state.column + 1) + ") is attended to " + (found ? "most by " + found : "by nothing");
    }
    if (row < 0) return "Point at a query or a cell of the map to see what the query attends to; click to keep it selected.";
    const token = "“" + layer().queries[row] + "” (" + (row + 1) + ")";
    if (state.column >= 0) {
      const key = "“" + layer().keys[state.column] + "” (" + (state.column + 1) + ")";
      return token + " → " + key + ": " + said(one.values[row * one.width + state.column]);
    }
    const found = strongestOf(one, (at) => row * one.width + at, one.width, layer().keys);
    return token + " attends " + (found ? "most to " + found : "to nothing");
  }

  function strongestOf(one, at, count, tokens) {
    const weight = (index) => one.values[at(index)];
    return strongest(weight, count, 3).map((index) => "“" + tokens[index] + "” " + said(weight(index))).join(", ");
  }

  function point(row, column) {
    if (layers.length === 0 || row >= layer().queries.length || column >= layer().keys.length) return;
    if (row === state.row && column === state.column) return;
    state.row = row;
    state.column = column;
    mark();
  }

  function pin(row) {
    state.pinned = row === state.pinned ? -1 : row;
    mark();
    change();
  }

  layerChoice.addEventListener("change", () => choose(Number(layerChoice.value), state.head));
  headChoice.addEventListener("change", () => choose(state.layer, Number(headChoice.value)));
  shapeChoice.addEventListener("change", () => {
    state.shape = shapeChoice.value;
    refresh();
    change();
  });
  scaleChoice.addEventListener("change", () => {
    state.scale = scaleChoice.value;
    refresh();
    change();
  });
  size.addEventListener("input", () => large.resize(Number(size.value)));
  night.addEventListener("change", () => {
    colours = palette(night.matches);
    if (layers.length > 0) show(layers, kept());
  });

  // Arrow keys choose layer and head, unless the focus is on a control.
  function onKey(event) {
    if (/^(SELECT|INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.altKey || event.ctrlKey || event.metaKey || layers.length === 0) return;
    const heads = headsOf(layer());
    const at = heads.indexOf(state.head);
    if (event.key === "ArrowLeft") choose(state.layer, heads[Math.max(0, at - 1)]);
    else if (event.key === "ArrowRight") choose(state.layer, heads[Math.min(heads.length - 1, at + 1)]);
    else if (event.key === "ArrowUp") choose(state.layer - 1, state.head);
    else if (event.key === "ArrowDown") choose(state.layer + 1, state.head);
    else return;
    event.preventDefault();
    overview.reveal();
  }
  root.addEventListener("keydown", onKey);

  // What is chosen, to be chosen again in other layers.
  function kept() {
    return layers.length === 0 ? {} : { head: chosenName(), row: state.pinned };
  }

  return { show, choose, point, refresh, onKey, kept, overview: overview.element };
}
