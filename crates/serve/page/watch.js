import { ask } from "./api.js";
import { drawCurves, short, smoothed } from "./curves.js";
import { element } from "./elements.js";
import { chosenIn, keysOf } from "./look.js";
import { showPrediction } from "./prediction.js";
import { runTable } from "./runs.js";
import { layersOf } from "./source.js";
import { say } from "./status.js";
import { attentionView } from "./view.js";

// Trainings: a table of runs, the curves of one or several, and the attention of a fixed example as it changes.
export const title = "Runs";
const BETWEEN = 2000;
const MOST_POINTS = 400;

export function open(root, app, state) {
  root.appendChild(element("h2", "", "Runs"));
  const table = runTable(root.appendChild(element("div")), { choose, shown: (names) => { app.write({ beside: names.join(",") }); others = names; update(); } });
  const one = root.appendChild(element("section", "run"));
  const head = one.appendChild(element("div", "head"));
  const name = head.appendChild(element("h2"));
  const facts = head.appendChild(element("p", "hint"));
  facts.setAttribute("aria-live", "off");
  const progress = head.appendChild(document.createElement("progress"));
  const stop = head.appendChild(element("button", "button", "Stop and save"));
  stop.type = "button";
  const figures = one.appendChild(element("div", "figures"));
  const maps = one.appendChild(element("section"));
  maps.appendChild(element("h2", "", "Attention of a fixed example"));
  const label = maps.appendChild(element("label", "row", "step "));
  const slider = label.appendChild(element("input"));
  slider.type = "range";
  const stepSaid = label.appendChild(element("output", "number"));
  const prediction = maps.appendChild(element("div", "prediction"));
  const view = attentionView(maps.appendChild(element("div")), { change: (chosen) => app.write(keysOf(chosen)) });
  const records = new Map();
  const seen = new Map();
  let others = (state.beside || "").split(",").filter((one) => one);
  let chosen = state.run || "";
  let runs = [];
  let steps = [];
  let first = chosenIn(state);
  let isLast = state.step === undefined;
  let timer = 0;
  let isClosed = false;
  const waiting = new AbortController();
  maps.hidden = one.hidden = true;

  function choose(run) {
    chosen = run;
    others = others.filter((name) => name !== run);
    steps = [];
    isLast = true;
    first = {};
    app.write({ view: "watch", run, step: undefined });
    update();
  }

  // Asks for what is new, and again after a while.
  async function update() {
    clearTimeout(timer);
    try {
      const found = await ask("/v1/runs", undefined, waiting.signal);
      if (isClosed) return;
      runs = found.runs;
      if (!runs.some((run) => run.name === chosen)) chosen = (runs.find((run) => run.state === "running") || runs[0] || {}).name || "";
      table.show(runs, chosen, others);
      one.hidden = chosen === "";
      if (chosen === "") say("There are no runs in this folder yet.");
      // An address may name runs that are no longer there.
      for (const run of [chosen, ...others].filter((name) => runs.some((run) => run.name === name))) await fetchRecords(run);
      if (chosen !== "") {
        showRun(runs.find((run) => run.name === chosen));
        await showMaps();
      }
    } catch (error) {
      app.fail(error);
      if (error.status === 0 || error.name === "AbortError") return;
    }
    if (!isClosed) timer = setTimeout(update, BETWEEN);
  }

  async function fetchRecords(run) {
    const known = records.get(run) || [];
    // The last step is asked for again: its loss is written at once, its scores when they are computed.
    const since = Math.max(0, (known.length > 0 ? known[known.length - 1].step : 0) - 1);
    const found = await ask("/v1/runs/" + encodeURIComponent(run) + "?since=" + since, undefined, waiting.signal);
    records.set(run, known.filter((record) => record.step <= since).concat(found.records));
  }

  function showRun(run) {
    name.textContent = run.name;
    const rate = run.rate ? short(run.rate) + " tokens/s" : "";
    const left = run.state === "running" && Number.isFinite(run.seconds_left) ? duration(run.seconds_left) + " left" : "";
    facts.textContent = [run.state, "step " + run.step + (run.steps ? " of " + run.steps : ""), rate, left].filter((part) => part).join(" · ");
    progress.max = run.steps || 1;
    progress.value = run.step || 0;
    progress.hidden = !run.steps;
    progress.setAttribute("aria-label", "steps of " + run.name);
    stop.hidden = !run.watched;
    drawAll([chosen, ...others.filter((other) => other !== chosen)]);
  }

  function drawAll(names) {
    const shown = new Map();
    const add = (title, series) => shown.set(title, (shown.get(title) || []).concat(series));
    names.forEach((run, index) => {
      const list = records.get(run) || [];
      const named = (what) => (names.length > 1 ? run + " " : "") + what;
      const pick = (value) => list.filter((record) => Number.isFinite(value(record))).map((record) => [record.step, value(record)]);
      // Records of evaluations have the mean loss since the one before; they will do if nothing else was recorded.
      const steps = list.filter((record) => record.split === "train");
      const trained = (steps.length > 0 ? steps : list).map((record) => [record.step, record.loss]);
      const colour = names.length > 1 ? index : 0;
      add("loss", [
        { name: named("train"), points: smoothed(trained, MOST_POINTS), colour, isDotted: names.length > 1 },
        { name: named("dev"), points: pick((record) => (record.metrics || {}).loss), colour: names.length > 1 ? index : 1 },
      ]);
      const metrics = new Set(list.flatMap((record) => Object.keys(record.metrics || {})));
      metrics.delete("loss");
      for (const metric of metrics) add(metric + " on dev", [{ name: named(metric), points: pick((record) => (record.metrics || {})[metric]), colour }]);
      add("learning rate", [{ name: named("rate"), points: smoothed(pick((record) => record.learning_rate), MOST_POINTS), colour }]);
    });
    const titles = Array.from(shown.keys());
    while (figures.children.length > titles.length) figures.lastChild.remove();
    while (figures.children.length < titles.length) figures.appendChild(document.createElement("figure"));
    titles.forEach((title, at) => {
      if (!figures.children[at].matches(":hover")) drawCurves(figures.children[at], title, shown.get(title).filter((one) => one.points.length > 0));
    });
  }

  async function showMaps() {
    const found = await ask("/v1/runs/" + encodeURIComponent(chosen) + "/maps", undefined, waiting.signal);
    const isNew = found.steps.length !== steps.length;
    steps = found.steps;
    maps.hidden = steps.length === 0;
    if (steps.length === 0) return;
    slider.min = 0;
    slider.max = steps.length - 1;
    if (isLast) slider.value = steps.length - 1;
    else if (state.step !== undefined) slider.value = Math.max(0, steps.indexOf(Number(state.step)));
    if (isNew) await showStep();
  }

  async function showStep() {
    const run = chosen;
    const step = steps[Number(slider.value)];
    stepSaid.textContent = step + " (" + (Number(slider.value) + 1) + " of " + steps.length + ")";
    slider.setAttribute("aria-valuetext", "step " + step);
    const key = run + "/" + step;
    if (!seen.has(key)) seen.set(key, await ask("/v1/runs/" + encodeURIComponent(run) + "/maps/" + step, undefined, waiting.signal));
    // Another step may have been chosen meanwhile.
    if (step !== steps[Number(slider.value)] || run !== chosen) return;
    const found = seen.get(key);
    showPrediction(prediction, found.prediction);
    const layers = layersOf(found, () => Promise.reject(new Error("these maps are whole")), () => {});
    view.show(layers, first.head === undefined ? view.kept() : first);
    first = {};
  }

  slider.addEventListener("input", () => {
    isLast = Number(slider.value) === steps.length - 1;
    state.step = undefined;
    app.write({ step: isLast ? undefined : steps[Number(slider.value)] });
    showStep().catch(app.fail);
  });
  stop.addEventListener("click", async () => {
    stop.disabled = true;
    try {
      await ask("/v1/runs/" + encodeURIComponent(chosen) + "/stop", {});
      say("The run saves its state and stops.", "good");
    } catch (error) {
      app.fail(error);
    }
    stop.disabled = false;
    update();
  });

  update();
  return {
    close: () => {
      isClosed = true;
      clearTimeout(timer);
      waiting.abort();
    },
  };
}

function duration(seconds) {
  if (seconds < 90) return Math.round(seconds) + " s";
  if (seconds < 5400) return Math.round(seconds / 60) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}
