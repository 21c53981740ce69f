import { element } from "./elements.js";
import { colourOf, css, inkUpon, said } from "./weights.js";
export { tokenStrip };

// Tokens as a line of text. `on` has `point(index)`, which also gets −1, and, if tokens can be chosen, `pin(index)`.
function tokenStrip(root, name, className, on) {
  const holder = root.appendChild(element("div", "strip"));
  holder.appendChild(element("b", "", name));
  const list = holder.appendChild(element("div", className));
  list.tabIndex = 0;
  list.setAttribute("role", "group");
  list.setAttribute("aria-label", name);
  let spans = [];

  function show(tokens) {
    list.textContent = "";
    spans = tokens.map((token, index) => {
      const span = list.appendChild(element("span", "", token));
      span.dataset.index = index;
      list.appendChild(document.createTextNode(" "));
      return span;
    });
  }

  // Shades each token by its weight, or none without weights.
  function shade(weights, most, colours) {
    spans.forEach((span, index) => {
      const colour = weights && colourOf(colours, weights[index], most);
      span.style.background = colour ? css(colour) : "";
      span.style.color = colour ? inkUpon(colour) : "";
      span.title = colour ? said(weights[index]) : "";
    });
  }

  function mark(chosen) {
    spans.forEach((span, index) => span.classList.toggle("chosen", index === chosen));
  }

  const indexOf = (event) => {
    const index = event.target.dataset ? event.target.dataset.index : undefined;
    return index === undefined ? -1 : Number(index);
  };
  list.addEventListener("pointerover", (event) => on.point(indexOf(event)));
  list.addEventListener("pointerleave", () => on.point(-1));
  if (on.pin) {
    list.addEventListener("click", (event) => {
      if (indexOf(event) >= 0) on.pin(indexOf(event));
    });
  }
  return { element: holder, show, shade, mark };
}
