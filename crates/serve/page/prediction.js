import { element } from "./elements.js";
import { visible } from "./source.js";

// A prediction of any task, alone or beside what it was before.
const MOST_BARS = 8;

export function percent(share) {
  return (100 * share).toFixed(share >= 0.0995 ? 1 : 2) + " %";
}

export function change(value) {
  const points = 100 * value;
  if (Math.abs(points) < 0.005) return "0.00";
  return (points >= 0 ? "+" : "−") + Math.abs(points).toFixed(Math.abs(points) >= 9.95 ? 1 : 2);
}

// Shows a prediction. With `before`, each probability has its change in percentage points.
export function showPrediction(root, prediction, before, when = "before") {
  root.textContent = "";
  if (!prediction) {
    root.appendChild(element("p", "hint", "This model gives no answer of its own."));
    return;
  }
  root.appendChild(element("p", "output", prediction.output));
  const all = prediction.probabilities;
  if (Array.isArray(prediction.tags) && Array.isArray(all)) showTags(root, prediction, before);
  else if (all && !Array.isArray(all)) showBars(root, entriesOf(all), before && before.probabilities && entriesOf(before.probabilities), "label");
  if (prediction.next) {
    const entries = (one) => one.next.map((item) => [visible(item.token), item.probability]);
    showBars(root, entries(prediction), before && before.next && entries(before), "next token");
  }
  const words = [["log_probability", "log-probability"], ["value", "value"], ["values", "values"], ["transcript", "transcript"]];
  const said = words.filter(([key]) => prediction[key] !== undefined && prediction[key] !== prediction.output).map(([key, name]) => {
    const shown = (value) => (typeof value === "number" ? value.toFixed(3).replace("-", "−") : Array.isArray(value) ? value.map((one) => (typeof one === "number" ? one.toFixed(3) : one)).join(", ") : String(value));
    const old = before && before[key] !== undefined ? " (" + when + " " + shown(before[key]) + ")" : "";
    return name + " " + shown(prediction[key]) + old;
  });
  if (said.length > 0) root.appendChild(element("p", "hint", said.join("; ")));
}

function entriesOf(probabilities) {
  return Object.entries(probabilities).filter(([, value]) => typeof value === "number");
}

function showBars(root, entries, before, what) {
  const known = new Map(before || []);
  const list = entries.slice().sort((a, b) => b[1] - a[1]).slice(0, MOST_BARS);
  const table = root.appendChild(element("table", "bars"));
  head(table, [what, "probability", ...(before ? ["change"] : [])]);
  const body = table.appendChild(document.createElement("tbody"));
  for (const [name, value] of list) {
    const row = body.appendChild(document.createElement("tr"));
    row.appendChild(element("th", "name", name)).scope = "row";
    const cell = row.appendChild(element("td", "value"));
    cell.appendChild(bar(value, known.get(name)));
    cell.appendChild(element("span", "number", percent(value)));
    if (before) row.appendChild(element("td", "number " + signOf(value - (known.get(name) || 0)), known.has(name) ? change(value - known.get(name)) : "new"));
  }
  if (entries.length > MOST_BARS) root.appendChild(element("p", "hint", "and " + (entries.length - MOST_BARS) + " more"));
}

function signOf(difference) {
  return Math.abs(difference) < 0.00005 ? "" : difference > 0 ? "more" : "less";
}

function head(table, names) {
  const row = table.appendChild(document.createElement("thead")).appendChild(document.createElement("tr"));
  for (const name of names) row.appendChild(element("th", "", name)).scope = "col";
}

// A bar of a share; a line marks what it was before.
function bar(share, before) {
  const holder = element("span", "bar");
  holder.setAttribute("aria-hidden", "true");
  const filled = holder.appendChild(element("span", "filled"));
  filled.style.width = 100 * Math.max(0, Math.min(1, share)) + "%";
  if (before !== undefined) holder.appendChild(element("span", "was")).style.left = 100 * Math.max(0, Math.min(1, before)) + "%";
  return holder;
}

function showTags(root, prediction, before) {
  const table = root.appendChild(element("table", "bars"));
  head(table, ["token", "tag", "probability", ...(before ? ["change"] : [])]);
  const body = table.appendChild(document.createElement("tbody"));
  prediction.tags.forEach((tag, at) => {
    const row = body.appendChild(document.createElement("tr"));
    row.appendChild(element("th", "name", prediction.tokens ? prediction.tokens[at] : String(at + 1))).scope = "row";
    const old = before && before.tags && before.tags.length === prediction.tags.length ? before.tags[at] : tag;
    const cell = row.appendChild(element("td", "tag", tag));
    if (old !== tag) cell.appendChild(element("del", "", old));
    const value = prediction.probabilities[at];
    const was = before && before.tags.length === prediction.tags.length ? before.probabilities[at] : undefined;
    const shown = row.appendChild(element("td", "value"));
    shown.appendChild(bar(value, was));
    shown.appendChild(element("span", "number", percent(value)));
    if (before) row.appendChild(element("td", "number " + signOf(value - (was ?? value)), was === undefined ? "" : change(value - was)));
  });
}

// Says how much an intervention changed a prediction, in one sentence.
export function sentenceOfChange(before, after) {
  if (!before || !after) return "This model gives no answer of its own; the maps show what changes.";
  const was = scoreOf(before, before);
  const is = scoreOf(after, before);
  const isSame = before.output === after.output;
  const answer = isSame ? "The answer stays the same" : "The answer changes";
  if (was === null || is === null) return answer + ".";
  return answer + "; the probability of " + was.what + " goes from " + percent(was.value) + " to " + percent(is.value) + " (" + change(is.value - was.value) + " points).";
}

// The probability that a prediction gives to the answer of another.
function scoreOf(prediction, answer) {
  if (answer.next && prediction.next) {
    const token = answer.next[0].token;
    const found = prediction.next.find((item) => item.token === token);
    return found ? { what: "“" + visible(token) + "”", value: found.probability } : null;
  }
  if (Array.isArray(answer.tags) && Array.isArray(prediction.probabilities)) {
    // A tagger says the probability of its own tags only.
    const same = prediction.tags.map((tag, at) => (tag === answer.tags[at] ? prediction.probabilities[at] : null)).filter((one) => one !== null);
    return same.length === 0 ? null : { what: "its tags (mean)", value: same.reduce((sum, one) => sum + one, 0) / same.length };
  }
  const all = prediction.probabilities;
  const label = answer.label ?? answer.output;
  return all && typeof all[label] === "number" ? { what: "“" + label + "”", value: all[label] } : null;
}
