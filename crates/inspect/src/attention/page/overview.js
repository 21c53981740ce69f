import { drawSmall } from "./drawing.js";
import { element } from "./elements.js";
import { MEAN } from "./weights.js";
export { headName, headsOf, overviewGrid };

function headName(layer, head) {
  return head === MEAN ? "mean of heads" : layer.heads[head].name;
}

// The label above a column of heads.
function headNumber(layer, head) {
  return head === MEAN ? "mean" : String(layer.heads[head].head);
}

// The heads that can be chosen in a layer; if there are several, their mean comes first.
function headsOf(layer) {
  const heads = layer.heads.map((_, index) => index);
  return layer.heads.length > 1 && !layer.isWithoutMean ? [MEAN].concat(heads) : heads;
}

// A grid of thumbnails, a row for each layer and a column for each head. `onChoose(layer, head)` is called with indices.
function overviewGrid(root, onChoose) {
  const grid = root.appendChild(element("div", "overview"));
  grid.setAttribute("role", "group");
  grid.setAttribute("aria-label", "layers and heads");
  let turn = 0;

  function show(layers, palette) {
    grid.textContent = "";
    turn += 1;
    const most = Math.max.apply(null, layers.map((layer) => headsOf(layer).length));
    grid.hidden = most < 2 && layers.length < 2;
    if (grid.hidden) return;
    // The large map below should still be in sight.
    const side = Math.max(36, Math.min(most <= 5 ? 84 : most <= 9 ? 64 : most <= 13 ? 52 : 44, Math.floor(320 / layers.length)));
    grid.style.gridTemplateColumns = "max-content repeat(" + most + ", max-content)";
    const first = headsOf(layers[0]).map((head) => headNumber(layers[0], head));
    const isEven = layers.every((layer) => headsOf(layer).map((head) => headNumber(layer, head)).join() === first.join());
    if (isEven && most > 1) {
      grid.appendChild(element("span"));
      for (const name of first) grid.appendChild(element("span", "top", name));
    }
    const todo = [];
    layers.forEach((layer, index) => {
      grid.appendChild(element("span", "", layer.name));
      const heads = headsOf(layer);
      for (const head of heads) {
        const button = grid.appendChild(document.createElement("button"));
        button.type = "button";
        const note = head === MEAN ? "" : layer.heads[head].note || "";
        button.title = layer.name + ", " + headName(layer, head) + (note ? ": " + note : "");
        button.setAttribute("aria-label", button.title);
        button.dataset.layer = index;
        button.dataset.head = head;
        button.dataset.name = headName(layer, head);
        const small = button.appendChild(document.createElement("canvas"));
        small.style.width = side + "px";
        small.style.height = side + "px";
        todo.push(() => {
          const map = layer.small(head);
          if (map) drawSmall(small, map, side, palette);
        });
      }
      for (let empty = heads.length; empty < most; empty++) grid.appendChild(element("span"));
    });
    drawSome(todo, turn);
  }

  // Draws for at most 30 ms at a time, so that the page stays responsive.
  function drawSome(todo, own) {
    const end = Date.now() + 30;
    while (todo.length > 0 && Date.now() < end && own === turn) todo.shift()();
    if (todo.length > 0 && own === turn) setTimeout(() => drawSome(todo, own), 0);
  }

  function mark(layer, head) {
    for (const button of grid.querySelectorAll("button")) {
      const isChosen = Number(button.dataset.layer) === layer && Number(button.dataset.head) === head;
      button.setAttribute("aria-pressed", isChosen ? "true" : "false");
    }
  }

  function reveal() {
    const chosen = grid.querySelector("button[aria-pressed=true]");
    if (chosen) chosen.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  grid.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) onChoose(Number(button.dataset.layer), Number(button.dataset.head));
  });
  return { element: grid, show, mark, reveal };
}
