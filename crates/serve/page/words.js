import { element } from "./elements.js";

// The words of a text, each in a field of its own, so that one can be replaced. `onText` gets the changed text, or undefined if it
// is the original again.
const MOST_WORDS = 60;

export function wordEditor(root, onText) {
  const label = root.appendChild(element("p", "hint", "Replace a word:"));
  const list = root.appendChild(element("div", "words"));
  let original = "";

  function set(text, changed) {
    original = text || "";
    list.textContent = "";
    const parts = original.split(/(\s+)/);
    const others = (changed ?? original).split(/(\s+)/);
    const words = parts.filter((part) => part.trim()).length;
    root.hidden = words === 0;
    label.textContent = words > MOST_WORDS ? "Replace one of the first " + MOST_WORDS + " words:" : "Replace a word:";
    let shown = 0;
    const now = parts.map((part, at) => (parts.length === others.length ? others[at] : part));
    parts.forEach((part, at) => {
      if (!part.trim() || shown >= MOST_WORDS) return;
      shown += 1;
      const field = list.appendChild(element("input", "word"));
      field.type = "text";
      field.value = now[at];
      field.setAttribute("aria-label", "word " + shown);
      const fit = () => {
        field.style.width = Math.max(2, field.value.length + 1.5) + "ch";
        field.classList.toggle("changed", field.value !== part);
      };
      fit();
      field.addEventListener("input", fit);
      field.addEventListener("change", () => {
        now[at] = field.value;
        const text = now.join("");
        onText(text === original || !text.trim() ? undefined : text);
      });
    });
  }
  return { set };
}
