import { ask } from "./api.js";
import { element } from "./elements.js";
import { inputEditor } from "./inputs.js";
import { showLens } from "./lens.js";
import { picturePanel } from "./picture.js";
import { showPrediction } from "./prediction.js";
import { lens, look } from "./source.js";
import { packInput, unpackInput } from "./state.js";
import { attentionView } from "./view.js";

// What a model sees in an input: its answer, and the attention of every head.
export const title = "Look";

export function open(root, app, state) {
  const model = app.model();
  if (!model) {
    root.appendChild(element("p", "", "This server has no models. Start it with regard serve MODEL."));
    return {};
  }
  const side = root.appendChild(element("section", "side"));
  const wide = root.appendChild(element("section", "wide"));
  wide.setAttribute("aria-busy", "true");
  side.appendChild(element("h2", "", "Input"));
  const editor = inputEditor(side.appendChild(element("div")), model.input, show);
  side.appendChild(element("h2", "", "Answer"));
  const answer = side.appendChild(element("div", "prediction"));
  answer.setAttribute("aria-live", "polite");
  const facts = side.appendChild(element("p", "hint facts"));
  const picture = picturePanel(wide, model, {
    input: (input) => {
      editor.set(input);
      show(input);
    },
    point: (row, column) => view.point(row, column),
  });
  wide.appendChild(element("h2", "", "Attention"));
  const find = wide.appendChild(element("div", "patterns"));
  const holder = wide.appendChild(element("div"));
  const layers = wide.appendChild(element("div", "lens"));
  const view = attentionView(holder, { change: (chosen) => app.write(keysOf(chosen)), point: picture.mark });
  let waiting = new AbortController();
  let given;
  let example = {};
  let first = chosenIn(state);

  async function show(input) {
    waiting.abort();
    waiting = new AbortController();
    const signal = waiting.signal;
    given = input;
    app.write({ view: "look", model: model.name, input: packInput(input) });
    wide.setAttribute("aria-busy", "true");
    const start = performance.now();
    try {
      const seen = await look(model, { input }, signal, arrived);
      if (signal.aborted) return;
      showPrediction(answer, seen.prediction);
      const took = performance.now() - start;
      const heads = seen.layers.filter((one) => !one.isRollout).reduce((sum, one) => sum + one.heads.length, 0);
      facts.textContent = counted(seen.tokens.length, "token") + ", " + counted(heads, "head") + ", " + Math.round(took) + " ms" + (input === example.input && example.expected ? ". The data say: " + example.expected : "");
      nameLayers(seen.layers, model);
      holder.hidden = seen.layers.length === 0;
      if (seen.layers.length > 0) {
        picture.show(seen, input);
        view.show(seen.layers, first || view.kept());
      } else picture.show(seen, input);
      first = null;
      showPatterns(find, seen.layers, view);
      wide.setAttribute("aria-busy", "false");
      window.requestAnimationFrame(() => performance.mark("drawn"));
      showLens(layers, await lens(model, { input }, signal));
    } catch (error) {
      app.fail(error);
      if (!signal.aborted) wide.setAttribute("aria-busy", "false");
    }
  }

  function arrived(error) {
    if (error) app.fail(error);
    else view.refresh();
  }

  begin();
  async function begin() {
    let input = unpackInput(state.input);
    try {
      if (input === undefined) {
        example = await ask("/v1/example?model=" + encodeURIComponent(model.name));
        input = example.input;
      }
    } catch (error) {
      return app.fail(error);
    }
    editor.set(input);
    show(input);
  }

  return {
    exports: () => ({ model: model.name, input: given }),
    close: () => {
      waiting.abort();
      if (editor.close) editor.close();
      picture.close();
    },
  };
}

function counted(number, noun) {
  return number + " " + noun + (number === 1 ? "" : "s");
}

// The keys of the address for what is chosen in a view of attention, and the other way round.
export function keysOf(chosen) {
  const { head, row, shape, scale } = chosen;
  return { head, row: row < 0 ? undefined : row, shape: shape === "map" ? undefined : shape, scale: scale === "usual" ? undefined : scale };
}

export function chosenIn(state) {
  return { head: state.head, row: Number(state.row ?? -1), shape: state.shape || "map", scale: state.scale || "usual" };
}

// Gives layers their readable names.
export function nameLayers(layers, model) {
  for (const layer of layers) {
    const known = (model.layers || []).find((one) => one.name === layer.key);
    if (layer.isRollout) layer.name = layer.key === "rollout" ? "rollout of all layers" : layer.key;
    else if (known && known.words && known.words !== layer.key) layer.name = layer.key + " (" + known.words + ")";
  }
}

// Buttons that find the heads of a pattern.
export function showPatterns(root, layers, view) {
  root.textContent = "";
  const found = new Map();
  layers.forEach((layer, index) => layer.heads.forEach((head, at) => {
    if (!head.pattern) return;
    if (!found.has(head.pattern)) found.set(head.pattern, []);
    found.get(head.pattern).push([index, at, head.mass || 0]);
  }));
  root.hidden = found.size === 0;
  if (root.hidden) return;
  root.appendChild(element("span", "label", "Heads by pattern"));
  for (const [pattern, heads] of Array.from(found).sort((a, b) => b[1].length - a[1].length)) {
    const button = root.appendChild(element("button", "chip", pattern + " " + heads.length));
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      const isOn = button.getAttribute("aria-pressed") !== "true";
      for (const other of root.querySelectorAll("button")) other.setAttribute("aria-pressed", other === button && isOn ? "true" : "false");
      for (const small of view.overview.querySelectorAll("button")) {
        const isOne = heads.some(([layer, head]) => Number(small.dataset.layer) === layer && Number(small.dataset.head) === head);
        small.classList.toggle("faded", isOn && !isOne);
      }
      const best = heads.slice().sort((a, b) => b[2] - a[2])[0];
      if (isOn) view.choose(best[0], best[1]);
    });
  }
}
