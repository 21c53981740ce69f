import { choice, element, fill } from "./elements.js";
import { attentionView } from "./view.js";
import { MEAN, inputsOf, mean, unpack } from "./weights.js";

// Sets up every view of a page from the data in it.
function mount(root) {
  const data = JSON.parse(root.querySelector("script").textContent);
  const inputs = inputsOf(data).filter((input) => input.groups.some((group) => group.heads.length > 0));
  if (inputs.length === 0) {
    root.appendChild(element("p", "said", "No attention was captured."));
    return null;
  }
  for (const input of inputs) input.layers = input.groups.filter((group) => group.heads.length > 0).map(layerOf);
  const holder = root.appendChild(element("div", "controls"));
  holder.hidden = inputs.length < 2;
  const inputChoice = choice(holder, "input");
  fill(inputChoice, inputs.map((input, index) => [index, input.name || "input " + (index + 1)]), 0);
  const view = attentionView(root);
  inputChoice.addEventListener("change", () => view.show(inputs[Number(inputChoice.value)].layers, view.kept()));
  view.show(inputs[0].layers);
  return view.onKey;
}

function layerOf(group) {
  const maps = {};
  function map(head) {
    if (!maps[head]) {
      if (head === MEAN) {
        maps[head] = mean(group.heads.map((_, index) => map(index)));
      } else {
        maps[head] = unpack(group.heads[head].rows, group.queries.length, group.keys.length);
        // The unpacked array replaces the rows and is much smaller.
        group.heads[head].rows = null;
      }
    }
    return maps[head];
  }
  return { name: group.name, queries: group.queries, keys: group.keys, heads: group.heads, map: map, small: map };
}

const keys = Array.from(document.querySelectorAll(".attention")).map(mount).filter((key) => key !== null);
// With a single view on the page, arrow keys work without a click.
if (keys.length === 1) {
  document.addEventListener("keydown", (event) => {
    if (event.target === document.body) keys[0](event);
  });
}
