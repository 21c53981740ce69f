import { ask } from "./api.js";
import { costPanel } from "./cost.js";
import { choice, element, fill } from "./elements.js";
import { inputEditor } from "./inputs.js";
import { nameLayers, showPatterns } from "./look.js";
import { overviewGrid } from "./overview.js";
import { pairPanel } from "./pair.js";
import { sentenceOfChange, showPrediction } from "./prediction.js";
import { look } from "./source.js";
import { packInput, unpackInput } from "./state.js";
import { palette } from "./weights.js";
import { wordEditor } from "./words.js";

// Questions to a model: what happens to the answer if heads are switched off, a word is replaced, or the attention is sharper?
export const title = "Question";

const MODES = {
  zero: "The head's output is zero. A network that always had this head meets a state that it never saw, so zero alone may exaggerate what the head does.",
  mean: "The head's output is its mean over the dev split, the same for every token: what it says about this input is gone, what it always says stays.",
  uniform: "The head attends equally to everything that it may see.",
  self: "The head attends only to the query's own position.",
};

const NAMES = [["zero", "zero"], ["mean", "its mean"], ["uniform", "uniform attention"], ["self", "attention to itself"]];

export function open(root, app, state) {
  const model = app.model();
  const side = root.appendChild(element("section", "side"));
  const wide = root.appendChild(element("section", "wide"));
  side.appendChild(element("h2", "", "Input"));
  const editor = inputEditor(side.appendChild(element("div")), model.input, begin);
  side.appendChild(element("h2", "", "What changes"));
  const words = model.input === "text" ? wordEditor(side.appendChild(element("div")), (text) => { changes.other = text; again(); }) : null;
  const modeChoice = choice(side.appendChild(element("div", "row")), "a head that is off gives");
  const allowed = new Set(model.layers.flatMap((layer) => layer.modes));
  fill(modeChoice, NAMES.filter(([mode]) => allowed.has(mode)), state.mode || "zero");
  const meaning = side.appendChild(element("p", "hint"));
  const chips = side.appendChild(element("div", "patterns"));
  const positions = side.appendChild(element("label", "row check"));
  const positionsBox = positions.appendChild(element("input"));
  positionsBox.type = "checkbox";
  positions.appendChild(document.createTextNode(" without positions"));
  positions.hidden = model.positions === false;
  const heat = side.appendChild(element("label", "row", "temperature of attention "));
  const slider = heat.appendChild(element("input"));
  Object.assign(slider, { type: "range", min: -1, max: 1, step: 0.05 });
  const degrees = heat.appendChild(element("output", "number"));
  const reset = side.appendChild(element("button", "button", "Undo all changes"));
  reset.type = "button";

  const sentence = wide.appendChild(element("p", "verdict"));
  sentence.setAttribute("aria-live", "polite");
  const two = wide.appendChild(element("div", "two"));
  const [before, after] = ["before", "after"].map((name) => {
    const part = two.appendChild(element("section"));
    part.appendChild(element("h2", "", name === "before" ? "Before" : "After"));
    return part.appendChild(element("div", "prediction " + name));
  });
  wide.appendChild(element("h2", "", "Heads"));
  const find = wide.appendChild(element("div", "patterns"));
  const grid = overviewGrid(wide.appendChild(element("div", "attention")), (layer, head) => choose(layer, Math.max(0, head)));
  const switches = wide.appendChild(element("div", "row"));
  const [headSwitch, layerSwitch] = [0, 1].map(() => {
    const button = switches.appendChild(element("button", "button"));
    button.type = "button";
    return button;
  });
  const pairHolder = wide.appendChild(element("div"));
  const pair = pairPanel(pairHolder, ["before", "after"], ([name]) => chooseName(name));
  const cost = costPanel(wide, app, toggle);
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const changes = { without: parse(state.without), other: state.other, temperature: Number(state.temperature) || 1 };
  // Parts of the first answer's maps are still fetched while changes are asked about.
  let basic = new AbortController();
  let waiting = new AbortController();
  let input;
  let base = null;
  let changed = null;
  let chosen = { name: state.head || "" };

  function parse(text) {
    return new Map((text || "").split(",").filter((one) => one).map((one) => one.split("=")).map(([name, mode]) => [name, mode || "zero"]));
  }

  function written() {
    return Array.from(changes.without, ([name, mode]) => (mode === "zero" ? name : name + "=" + mode)).join(",");
  }

  // Reads an input and shows the answer without changes.
  async function begin(given) {
    if (input !== undefined) changes.other = undefined;
    basic.abort();
    basic = new AbortController();
    input = given;
    try {
      base = await look(model, { input }, basic.signal, arrived);
      nameLayers(base.layers, model);
      base.layers = base.layers.filter((layer) => !layer.isRollout);
      showPrediction(before, base.prediction);
      if (words) words.set(typeof input === "string" ? input : input.text, changes.other);
      grid.show(base.layers, palette(night.matches));
      grid.element.hidden = base.layers.length === 0;
      showPatterns(find, base.layers, { overview: grid.element, choose });
      cost.about({ model: model.name, input });
      chooseName(chosen.name);
      await again();
    } catch (error) {
      app.fail(error);
    }
  }

  function arrived(error) {
    if (error) app.fail(error);
    else pair.refresh();
  }

  // Asks again with all changes.
  async function again() {
    showChanges();
    if (!base) return;
    waiting.abort();
    waiting = new AbortController();
    const query = { input: changes.other ?? input };
    if (changes.without.size > 0) query.without = written();
    if (changes.temperature !== 1) query.temperature = changes.temperature;
    const signal = waiting.signal;
    wide.setAttribute("aria-busy", "true");
    try {
      const isSame = changes.other === undefined && !query.without && !query.temperature;
      changed = isSame ? base : await look(model, query, signal, arrived);
      if (signal.aborted) return;
      showPrediction(after, changed.prediction, base.prediction);
      sentence.textContent = isSame ? "Nothing is changed yet: switch a head off, replace a word or move the temperature." : sentenceOfChange(base.prediction, changed.prediction);
      pair.show(base.layers, changed.layers.filter((layer) => !layer.isRollout), true, [chosen.name]);
    } catch (error) {
      app.fail(error);
    }
    if (!signal.aborted) wide.setAttribute("aria-busy", "false");
  }

  function showChanges() {
    app.write({
      view: "question", model: model.name, input: packInput(input), head: chosen.name, mode: modeChoice.value === "zero" ? undefined : modeChoice.value,
      without: written(), other: changes.other, temperature: changes.temperature === 1 ? undefined : changes.temperature,
    });
    meaning.textContent = MODES[modeChoice.value];
    positionsBox.checked = changes.without.has("positions");
    slider.value = Math.log10(changes.temperature);
    degrees.textContent = changes.temperature.toFixed(2);
    chips.textContent = "";
    for (const [name, mode] of changes.without) {
      const chip = chips.appendChild(element("button", "chip", name + " = " + mode + " ✕"));
      chip.type = "button";
      chip.setAttribute("aria-label", name + " = " + mode + " ✕, switch on again");
      chip.addEventListener("click", () => toggle(name));
    }
    for (const button of grid.element.querySelectorAll("button")) {
      const name = button.dataset.name;
      button.classList.toggle("off", changes.without.has(name) || Array.from(changes.without.keys()).some((one) => name.startsWith(one + ".") && !/[a-z]/.test(name.slice(one.length))));
    }
    nameSwitches();
    cost.mark(changes.without);
  }

  function nameSwitches() {
    const layer = base && base.layers.find((one) => one.heads.some((head) => head.name === chosen.name));
    switches.hidden = !layer;
    if (!layer) return;
    headSwitch.textContent = (changes.without.has(chosen.name) ? "Switch on " : "Switch off ") + "head " + chosen.name;
    layerSwitch.textContent = (changes.without.has(layer.key) ? "Switch on " : "Switch off ") + "layer " + layer.key;
    layerSwitch.hidden = layer.heads.length < 2;
    headSwitch.onclick = () => toggle(chosen.name);
    layerSwitch.onclick = () => toggle(layer.key);
  }

  function toggle(name) {
    if (changes.without.has(name)) changes.without.delete(name);
    else changes.without.set(name, name === "positions" ? "zero" : modeChoice.value);
    again();
  }

  function choose(layer, head) {
    chooseName(base.layers[layer].heads[head].name);
  }

  function chooseName(name) {
    const all = base ? base.layers.flatMap((layer, at) => layer.heads.map((head, index) => [head.name, at, index])) : [];
    const found = all.find((one) => one[0] === name) || all[0];
    if (!found) return;
    chosen = { name: found[0] };
    grid.mark(found[1], found[2]);
    pair.choose(chosen.name);
    app.write({ head: chosen.name });
    nameSwitches();
  }

  modeChoice.addEventListener("change", () => {
    for (const name of changes.without.keys()) if (name !== "positions") changes.without.set(name, modeChoice.value);
    again();
  });
  positionsBox.addEventListener("change", () => toggle("positions"));
  slider.addEventListener("input", () => { degrees.textContent = (10 ** Number(slider.value)).toFixed(2); });
  slider.addEventListener("change", () => {
    changes.temperature = Number((10 ** Number(slider.value)).toFixed(3));
    again();
  });
  reset.addEventListener("click", () => {
    Object.assign(changes, { without: new Map(), other: undefined, temperature: 1 });
    if (words) words.set(input);
    again();
  });

  start();
  async function start() {
    let given = unpackInput(state.input);
    try {
      if (given === undefined) given = (await ask("/v1/example?model=" + encodeURIComponent(model.name))).input;
    } catch (error) {
      return app.fail(error);
    }
    editor.set(given);
    begin(given);
  }

  return {
    exports: () => {
      const query = { model: model.name, input: changes.other ?? input };
      if (changes.without.size > 0) query.without = written();
      if (changes.temperature !== 1) query.temperature = changes.temperature;
      return query;
    },
    close: () => {
      basic.abort();
      waiting.abort();
      cost.close();
      pair.close();
      if (editor.close) editor.close();
    },
  };
}
