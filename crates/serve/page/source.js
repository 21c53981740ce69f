import { Failure, ask } from "./api.js";
import { MEAN, absent, measured } from "./weights.js";

// Attention of the server: first a summary of all heads, then the parts of maps that come into sight.
const WHOLE = 512 * 512;
const TILE = 256;

// Longest text, in characters, for which what is sent whole is asked for: the rollout, and the predictions of all layers.
const LONGEST_WHOLE = 1200;

// Asks what a model sees in an input. `query` is `{input, without, temperature}`. `onArrive` is called when weights arrive later.
export async function look(model, query, signal, onArrive) {
  const plain = { model: model.name, ...query };
  if (!model.can.attention && model.input === "text") return predict(plain, signal);
  const first = { ...plain, summary: true };
  if (model.input !== "text" || model.task === "write") first.picture = true;
  if (isShort(query.input)) first.rollout = true;
  const answer = await summary(first, signal);
  return { ...answer, layers: layersOf(answer, (part) => ask("/v1/attention", { ...plain, ...part }, signal), onArrive) };
}

// Asks what each layer of a language model would write next; null if the model has no lens, or not for this input.
export async function lens(model, query, signal) {
  if (!model.can.lens || !isShort(query.input)) return null;
  try {
    return await ask("/v1/lens", { model: model.name, ...query, top: 5 }, signal);
  } catch (error) {
    if (error.status === 422 || error.status === 400 || error.status === 413) return null;
    throw error;
  }
}

function isShort(input) {
  return typeof input !== "string" || input.length <= LONGEST_WHOLE;
}

async function summary(request, signal) {
  try {
    return await ask("/v1/attention", request, signal);
  } catch (error) {
    // A rollout has a limit of its own.
    if (error.status !== 413 || !request.rollout) throw error;
    return ask("/v1/attention", { ...request, rollout: undefined }, signal);
  }
}

// The answer of a model without attention.
async function predict({ input, ...query }, signal) {
  const { results } = await ask("/v1/predict", { ...query, inputs: [input] }, signal);
  if (results[0].error) throw new Failure(results[0].error.message, 422, results[0].error.code);
  return { tokens: [], layers: [], prediction: results[0].without || results[0] };
}

// Splits the name of a head into its layer and its number.
function parts(name) {
  const found = /^(.+)\.(\d+)$/.exec(name);
  return found ? [found[1], Number(found[2])] : [name, 0];
}

// Groups the heads of an answer into layers. `fetchPart({layers, rows, columns})` gets weights.
export function layersOf(answer, fetchPart, onArrive) {
  const layers = [];
  const shared = new Map();
  // Equal lists of tokens become one list, so that views can compare them by identity.
  const once = (tokens) => {
    const key = JSON.stringify(tokens);
    if (!shared.has(key)) shared.set(key, tokens.map(visible));
    return shared.get(key);
  };
  for (const map of [...(answer.heads || []), ...answer.maps]) {
    const isRollout = map.name.startsWith("rollout");
    const [key, head] = isRollout ? [map.name, 0] : parts(map.name);
    let layer = layers.find((one) => one.key === key);
    if (!layer) {
      const [queries, keys] = [once(map.queries || answer.tokens), once(map.keys || answer.tokens)];
      layer = { key, name: key, queries, keys, heads: [], isRollout };
      layers.push(layer);
    }
    layer.heads.push({ ...map, head, note: noteOf(map) });
  }
  layers.forEach((layer) => equip(layer, fetchPart, onArrive));
  return layers;
}

// Spaces at the ends of a token, the ends of lines and other signs without a shape get one.
export function visible(token) {
  if (token === "") return "∅";
  return token.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length)).replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/[\u0000-\u001f]/g, (sign) => String.fromCharCode(0x2400 + sign.charCodeAt(0)));
}

function noteOf(map) {
  const said = [];
  if (map.pattern) said.push(map.pattern + (map.mass === undefined ? "" : " " + Math.round(100 * map.mass) + " %"));
  if (Number.isFinite(map.entropy)) said.push("entropy " + map.entropy.toFixed(2));
  if (Number.isFinite(map.distance)) said.push("distance " + map.distance.toFixed(1));
  return said.join(", ");
}

function numbers(rows) {
  const [height, width] = [rows.length, rows.length > 0 ? rows[0].length : 0];
  const values = new Float32Array(height * width);
  rows.forEach((row, at) => row.forEach((value, column) => { values[at * width + column] = value === null ? NaN : value; }));
  return measured(height, width, values);
}

// Gives a layer the functions that a view asks: `small(head)` and `map(head)`.
function equip(layer, fetchPart, onArrive) {
  const [small, large] = [new Map(), new Map()];
  layer.small = (head) => {
    if (!small.has(head)) small.set(head, head === MEAN ? meanOf(layer.heads.map((_, at) => layer.small(at))) : thumbnail(layer.heads[head]));
    return small.get(head);
  };
  layer.map = (head) => {
    if (!large.has(head)) {
      const name = head === MEAN ? layer.key : layer.heads[head].name;
      large.set(head, whole(layer.heads[head]) || tiled(layer, name, layer.small(head), fetchPart, onArrive));
    }
    return large.get(head);
  };
}

function thumbnail(head) {
  return numbers(head.thumbnail || head.rows || []);
}

function whole(head) {
  return head && head.rows ? numbers(head.rows) : null;
}

function meanOf(maps) {
  const values = maps[0].values.map((_, at) => maps.reduce((sum, map) => sum + map.values[at], 0) / maps.length);
  return measured(maps[0].height, maps[0].width, values);
}

// A map that is fetched in tiles as they are wanted.
function tiled(layer, name, like, fetchPart, onArrive) {
  const [height, width] = [layer.queries.length, layer.keys.length];
  const map = absent(height, width, like);
  const side = height * width <= WHOLE ? Math.max(height, width, 1) : TILE;
  const asked = new Set();
  let left = Math.ceil(height / side) * Math.ceil(width / side);
  map.ready = new Promise((resolve) => { map.isReady = resolve; });
  map.want = (rows, columns) => {
    for (let row = Math.floor(rows[0] / side) * side; row < rows[1]; row += side) {
      for (let column = Math.floor(columns[0] / side) * side; column < columns[1]; column += side) {
        const key = row + "," + column;
        if (asked.has(key)) continue;
        asked.add(key);
        fetchTile(row, column).catch((error) => {
          asked.delete(key);
          onArrive(error);
        });
      }
    }
  };
  async function fetchTile(row, column) {
    const [end, last] = [Math.min(height, row + side), Math.min(width, column + side)];
    const part = { layers: [name] };
    if (side < height) part.rows = [row, end];
    if (side < width) part.columns = [column, last];
    const { maps } = await fetchPart(part);
    for (let at = row; at < end; at++) {
      for (let to = column; to < last; to++) {
        let sum = 0;
        for (const one of maps) {
          const value = one.rows[at - one.first_row]?.[to - (one.first_column || 0)];
          sum += value === null || value === undefined ? NaN : value / maps.length;
        }
        map.values[at * width + to] = sum;
      }
    }
    left -= 1;
    if (left === 0) {
      const { largest, usual } = measured(height, width, map.values);
      Object.assign(map, { largest, usual, want: undefined });
      map.isReady(map);
    }
    onArrive();
  }
  return map;
}

// Waits until all weights of a map are there.
export function complete(map) {
  if (!map.want) return Promise.resolve(map);
  map.want([0, map.height], [0, map.width]);
  return map.ready;
}
