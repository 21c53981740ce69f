import { element, fill } from "./elements.js";

// Controls for the options of a mechanism: sliders for numbers, lists for names, fields for texts. `onChange` gets all values.
export function optionControls(root, options, start, onChange) {
  const values = {};
  for (const option of options) {
    values[option.name] = start[option.name] ?? option.default ?? undefined;
    const label = root.appendChild(element("label", "option"));
    label.appendChild(element("span", "name", option.label || option.name.replace(/[_-]/g, " ")));
    if (option.about) label.title = option.about;
    const set = (value) => {
      values[option.name] = value;
      onChange({ ...values });
    };
    if (option.values) list(label, option, values[option.name], set);
    else if ((option.type === "integer" || option.type === "number") && Number.isFinite(option.least) && Number.isFinite(option.most)) slide(label, option, values[option.name], set);
    else field(label, option, values[option.name], set);
    if (option.about) label.appendChild(element("span", "hint", option.about));
  }
  return { values: () => ({ ...values }) };
}

function list(label, option, value, set) {
  const select = label.appendChild(document.createElement("select"));
  fill(select, option.values.map((one) => [one, one]), value);
  select.addEventListener("change", () => set(select.value));
}

// A slider over the values of an option; wide ranges have a logarithmic one.
function slide(label, option, value, set) {
  const isWhole = option.type === "integer";
  const isLogarithmic = option.isLogarithmic || (option.least > 0 && option.most / option.least >= 100);
  const slider = label.appendChild(element("input"));
  slider.type = "range";
  const to = (one) => (isLogarithmic ? Math.log10(one) : one);
  const from = (one) => {
    const found = isLogarithmic ? 10 ** one : one;
    return isWhole ? Math.round(found) : Number(found.toPrecision(3));
  };
  slider.min = to(option.least);
  slider.max = to(option.most);
  slider.step = isLogarithmic ? 0.01 : isWhole ? 1 : (option.most - option.least) / 200;
  slider.value = to(value ?? option.least);
  const said = label.appendChild(element("output", "number", String(value)));
  slider.addEventListener("input", () => {
    said.textContent = String(from(Number(slider.value)));
    slider.setAttribute("aria-valuetext", said.textContent);
    set(from(Number(slider.value)));
  });
}

function field(label, option, value, set) {
  const input = label.appendChild(element("input"));
  input.type = "text";
  input.value = Array.isArray(value) ? value.join(" ") : value ?? "";
  input.addEventListener("change", () => {
    if (option.type === "integer" || option.type === "number") set(input.value.trim() === "" ? undefined : Number(input.value));
    else if (option.type === "numbers") set(input.value.split(/[\s,]+/).filter((one) => one).map(Number));
    else if (option.type === "words") set(input.value.split(/\s+/).filter((one) => one));
    else set(input.value);
  });
}
