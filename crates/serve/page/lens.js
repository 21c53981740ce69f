import { element } from "./elements.js";
import { percent } from "./prediction.js";
import { visible } from "./source.js";

// What each layer of a language model would predict if it were the last (logit lens).
const MOST_COLUMNS = 60;

export function showLens(root, seen) {
  root.textContent = "";
  if (!seen) return;
  root.appendChild(element("h2", "", "What each layer would predict"));
  root.appendChild(element("p", "hint", "The final norm and the output layer, applied to the hidden state of each layer: the token that the model would write next at each position. Darker is more certain; point at a cell for the first five."));
  const holder = root.appendChild(element("div", "scroll"));
  holder.tabIndex = 0;
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", "predictions of each layer");
  const table = holder.appendChild(element("table", "grid"));
  const from = Math.max(0, seen.tokens.length - MOST_COLUMNS);
  const top = table.appendChild(document.createElement("thead")).appendChild(document.createElement("tr"));
  top.appendChild(element("th", "", "layer")).scope = "col";
  for (const token of seen.tokens.slice(from)) top.appendChild(element("th", "token", visible(token))).scope = "col";
  const body = table.appendChild(document.createElement("tbody"));
  for (const layer of seen.layers.slice().reverse()) {
    const row = body.appendChild(document.createElement("tr"));
    row.appendChild(element("th", "", layer.name)).scope = "row";
    for (const guesses of layer.positions.slice(from)) {
      const best = guesses[0];
      const cell = row.appendChild(element("td", "guess", best ? visible(best.token) : ""));
      if (!best) continue;
      cell.title = guesses.map((one) => visible(one.token) + " " + percent(one.probability)).join("\n");
      cell.style.setProperty("--share", Math.round(100 * best.probability) + "%");
      cell.classList.toggle("sure", best.probability > 0.55);
    }
  }
  if (from > 0) root.appendChild(element("p", "hint", "The last " + MOST_COLUMNS + " of " + seen.tokens.length + " positions."));
}
