import { short } from "./curves.js";
import { element } from "./elements.js";

// The table of runs: sortable, with the settings in which they differ.
const FIXED = [
  ["name", (run) => run.name],
  ["task", (run) => run.task],
  ["state", (run) => run.state],
  ["step", (run) => run.step],
];

export function runTable(root, on) {
  const controls = root.appendChild(element("div", "row"));
  const label = controls.appendChild(element("label", "check"));
  const all = label.appendChild(element("input"));
  all.type = "checkbox";
  label.appendChild(document.createTextNode(" all settings, not only those that differ"));
  const holder = root.appendChild(element("div", "scroll"));
  holder.tabIndex = 0;
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", "table of runs");
  let runs = [];
  let sorted = { key: "name", isDown: false };
  let chosen = "";
  let shown = new Set();

  function columns() {
    const scores = keysOf(runs.map((run) => run.scores)).map((key) => [key, (run) => run.scores[key], "score"]);
    // Settings are compared among runs of one task: those of other tasks have other keys.
    const own = runs.find((run) => run.name === chosen);
    const alike = runs.filter((run) => !own || run.task === own.task);
    const settings = keysOf(alike.map((run) => run.settings)).map((key) => {
      const values = new Set(alike.map((run) => JSON.stringify(run.settings[key])));
      return [key, (run) => run.settings[key], values.size > 1 ? "setting differs" : "setting"];
    });
    return [...FIXED, ...scores, ...settings.filter((column) => all.checked || column[2] !== "setting")];
  }

  function draw() {
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : undefined;
    holder.textContent = "";
    const table = holder.appendChild(element("table", "runs"));
    const top = table.appendChild(document.createElement("thead")).appendChild(document.createElement("tr"));
    const list = columns();
    top.appendChild(element("th", "", "curves")).scope = "col";
    for (const [key, , kind] of list) {
      const cell = top.appendChild(element("th", kind));
      cell.scope = "col";
      cell.setAttribute("aria-sort", sorted.key === key ? (sorted.isDown ? "descending" : "ascending") : "none");
      const button = cell.appendChild(element("button", "quiet", key + (sorted.key === key ? (sorted.isDown ? " ↓" : " ↑") : "")));
      button.type = "button";
      button.dataset.key = key;
      button.addEventListener("click", () => {
        sorted = { key, isDown: sorted.key === key ? !sorted.isDown : kind === "score" };
        draw();
      });
      if (key === focused) button.focus();
    }
    const body = table.appendChild(document.createElement("tbody"));
    const valueOf = (list.find((column) => column[0] === sorted.key) || list[0])[1];
    for (const run of runs.slice().sort((a, b) => compare(valueOf(a), valueOf(b)) * (sorted.isDown ? -1 : 1))) drawRow(body, run, list);
  }

  function drawRow(body, run, list) {
    const row = body.appendChild(document.createElement("tr"));
    row.classList.toggle("chosen", run.name === chosen);
    const box = row.appendChild(element("td")).appendChild(element("input"));
    box.type = "checkbox";
    box.checked = shown.has(run.name) || run.name === chosen;
    box.disabled = run.name === chosen;
    box.setAttribute("aria-label", "draw the curves of " + run.name);
    box.addEventListener("change", () => {
      if (box.checked) shown.add(run.name);
      else shown.delete(run.name);
      on.shown(Array.from(shown));
    });
    for (const [key, value, kind] of list) {
      const cell = row.appendChild(element(key === "name" ? "th" : "td", (kind || "") + (typeof value(run) === "number" ? " number" : "")));
      if (key === "name") {
        cell.scope = "row";
        const link = cell.appendChild(element("a", "", run.name));
        link.href = "#watch?run=" + encodeURIComponent(run.name);
        link.addEventListener("click", (event) => {
          event.preventDefault();
          on.choose(run.name);
        });
      } else if (key === "state") cell.appendChild(element("span", "state " + run.state, run.state));
      else if (key === "step") cell.textContent = short(run.step) + (run.steps ? " of " + short(run.steps) : "");
      else cell.textContent = said(value(run));
    }
  }

  all.addEventListener("change", draw);
  return {
    show: (found, name, others) => {
      [runs, chosen, shown] = [found, name, new Set(others)];
      draw();
    },
  };
}

function keysOf(objects) {
  return Array.from(new Set(objects.flatMap((one) => Object.keys(one))));
}

function said(value) {
  if (value === undefined || value === null) return "–";
  return typeof value === "number" ? short(value) : typeof value === "string" ? value : JSON.stringify(value);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? -1 : 1;
  return String(a ?? "").localeCompare(String(b ?? ""), undefined, { numeric: true });
}
