import { ask } from "./api.js";
import { element, fill } from "./elements.js";
import { inputEditor } from "./inputs.js";
import { pairPanel } from "./pair.js";
import { showPrediction } from "./prediction.js";
import { look } from "./source.js";
import { packInput, unpackInput } from "./state.js";

// Two models, or two inputs of a model, side by side, with their maps subtracted.
export const title = "Compare";
const NAMES = ["left", "right"];

export function open(root, app, state) {
  const two = root.appendChild(element("div", "two"));
  const sides = NAMES.map((name, index) => half(two, name, index));
  root.appendChild(element("h2", "", "Attention"));
  let wanted = [state.head, state.head2 || state.head];
  const pair = pairPanel(root.appendChild(element("div")), NAMES, (names) => {
    app.write({ head: names[0], head2: names[1] });
  });

  function half(holder, name, index) {
    const part = holder.appendChild(element("section", "half"));
    part.appendChild(element("h2", "", name === "left" ? "Left" : "Right"));
    const label = part.appendChild(element("label", "row", "model "));
    const select = label.appendChild(document.createElement("select"));
    fill(select, app.info.models.map((one) => [one.name, one.name + " (" + one.task + ")"]));
    const first = app.model(state.model);
    // Another model of the same task is what one most likely compares with.
    const other = app.info.models.find((one) => one !== first && one.task === first.task) || first;
    const given = index === 0 ? [first.name, state.input] : [state.model2 || other.name, state.input2];
    const own = { model: app.model(given[0]), input: unpackInput(given[1]), seen: null, waiting: new AbortController() };
    select.value = own.model.name;
    const editing = part.appendChild(element("div"));
    const answer = part.appendChild(element("div", "prediction"));
    answer.setAttribute("aria-live", "polite");
    const facts = part.appendChild(element("p", "hint"));
    let editor = null;

    function edit() {
      if (editor && editor.close) editor.close();
      editing.textContent = "";
      editor = inputEditor(editing, own.model.input, (input) => {
        own.input = input;
        show();
      });
      if (own.input !== undefined) editor.set(own.input);
    }

    // Shows the answer of this side; an input is an example of the model's own if there is none.
    async function show() {
      own.waiting.abort();
      own.waiting = new AbortController();
      const signal = own.waiting.signal;
      try {
        if (own.input === undefined) {
          own.input = (await ask("/v1/example?model=" + encodeURIComponent(own.model.name), undefined, signal)).input;
          editor.set(own.input);
        }
        const start = performance.now();
        own.seen = await look(own.model, { input: own.input }, signal, arrived);
        if (signal.aborted) return;
        own.seen.layers = own.seen.layers.filter((layer) => !layer.isRollout);
        facts.textContent = own.seen.tokens.length + " tokens, " + Math.round(performance.now() - start) + " ms";
      } catch (error) {
        app.fail(error);
        return;
      }
      both();
    }

    select.addEventListener("change", () => {
      const model = app.model(select.value);
      // An input stays if the other model takes it, too.
      if (model.input !== own.model.input) own.input = undefined;
      own.model = model;
      edit();
      show();
    });
    edit();
    function set(input) {
      own.input = input;
      editor.set(input);
    }

    return Object.assign(own, { show, set, answer, close: () => {
      own.waiting.abort();
      if (editor.close) editor.close();
    } });
  }

  function arrived(error) {
    if (error) app.fail(error);
    else pair.refresh();
  }

  function both() {
    const [left, right] = sides;
    app.write({
      view: "compare", model: left.model.name, input: packInput(left.input ?? ""), model2: right.model.name, input2: packInput(right.input ?? ""),
    });
    if (left.seen) showPrediction(left.answer, left.seen.prediction);
    if (right.seen) showPrediction(right.answer, right.seen.prediction, left.seen && left.model.task === right.model.task ? left.seen.prediction : undefined, "left");
    if (!left.seen || !right.seen) return;
    pair.show(left.seen.layers, right.seen.layers, left.model === right.model, wanted);
    wanted = [];
  }

  start();
  async function start() {
    await sides[0].show();
    // The right side begins with the input of the left if its model takes it.
    if (sides[1].input === undefined && sides[1].model.input === sides[0].model.input) {
      sides[1].set(sides[0].input);
    }
    sides[1].show();
  }

  return {
    exports: () => ({ model: sides[0].model.name, input: sides[0].input }),
    close: () => {
      pair.close();
      sides.forEach((side) => side.close());
    },
  };
}
