import { ask } from "./api.js";
import { element } from "./elements.js";
import { change, percent } from "./prediction.js";

// Which heads matter for one answer: each is switched off alone.
const MOST_ROWS = 24;

export function costPanel(root, app, onToggle) {
  root.appendChild(element("h2", "", "Which heads matter for this answer"));
  const row = root.appendChild(element("div", "row"));
  const button = row.appendChild(element("button", "button", "Switch off each head in turn"));
  button.type = "button";
  const label = row.appendChild(element("label", "", "by "));
  const mode = label.appendChild(document.createElement("select"));
  for (const [value, text] of [["zero", "zero"], ["mean", "its mean"], ["uniform", "uniform attention"]]) {
    mode.appendChild(element("option", "", text)).value = value;
  }
  const holder = root.appendChild(element("div", "cost"));
  let query = null;
  let waiting = null;
  let rows = [];

  async function measure() {
    if (waiting) waiting.abort();
    const own = new AbortController();
    waiting = own;
    button.disabled = true;
    const start = performance.now();
    try {
      show(await ask("/v1/cost", { ...query, mode: mode.value }, own.signal), performance.now() - start);
    } catch (error) {
      app.fail(error);
    }
    button.disabled = false;
  }

  function show(found, took) {
    holder.textContent = "";
    const said = mode.value === "zero" ? "set to zero" : mode.value === "mean" ? "replaced by its mean" : "attending uniformly";
    const isShare = found.score.what.includes("probability");
    const written = isShare ? change : (value) => (value < 0 ? "−" : "+") + Math.abs(value).toPrecision(3);
    const value = isShare ? percent(found.score.value) : found.score.value.toPrecision(4);
    holder.appendChild(element("p", "hint", found.score.what + ": " + value + ". With one head " + said + ", it changes by so " + (isShare ? "many points" : "much") + " (" + found.heads.length + " heads, " + (took / 1000).toFixed(1) + " s):"));
    const table = holder.appendChild(element("table", "bars changes"));
    const head = table.appendChild(document.createElement("thead")).appendChild(document.createElement("tr"));
    for (const name of ["head", "change", "switch"]) head.appendChild(element("th", "", name)).scope = "col";
    const body = table.appendChild(document.createElement("tbody"));
    const most = Math.max(...found.heads.map((one) => Math.abs(one.change)), 1e-9);
    rows = found.heads.slice(0, MOST_ROWS).map((one) => {
      const row = body.appendChild(document.createElement("tr"));
      row.appendChild(element("th", "name", one.name)).scope = "row";
      const cell = row.appendChild(element("td", "value"));
      const bar = cell.appendChild(element("span", "bar signed"));
      bar.setAttribute("aria-hidden", "true");
      const filled = bar.appendChild(element("span", one.change < 0 ? "filled minus" : "filled plus"));
      filled.style.width = (50 * Math.abs(one.change)) / most + "%";
      cell.appendChild(element("span", "number", written(one.change)));
      const toggle = row.appendChild(element("td")).appendChild(element("button", "quiet", "off"));
      toggle.type = "button";
      toggle.addEventListener("click", () => onToggle(one.name));
      return { name: one.name, toggle };
    });
    mark(marked);
    if (found.heads.length > MOST_ROWS) holder.appendChild(element("p", "hint", "and " + (found.heads.length - MOST_ROWS) + " heads with less effect"));
  }

  let marked = new Map();
  // Shows which heads are off.
  function mark(without) {
    marked = without;
    for (const row of rows) {
      row.toggle.textContent = without.has(row.name) ? "switch on" : "switch off";
      row.toggle.setAttribute("aria-label", row.toggle.textContent + " head " + row.name);
    }
  }

  // Sets the answer that is asked about.
  function about(one) {
    query = one;
    rows = [];
    holder.textContent = "";
  }

  button.addEventListener("click", measure);
  return { about, mark, close: () => waiting && waiting.abort() };
}
