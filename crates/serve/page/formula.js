// Formulas as MathML, which browsers draw and screen readers read. A text such as `a_ij = q_i · k_j` becomes letters, numbers and signs;
// `_` and `^` begin an index and an exponent, and `␣` is a space.
const SPACE = "http://www.w3.org/1998/Math/MathML";

function make(tag, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const child of children) made.append(child);
  return made;
}

function atom(text) {
  const tag = /^[\d.]+$/.test(text) ? "mn" : /^[\p{L}'∞]+$/u.test(text) ? "mi" : "mo";
  return make(tag, text);
}

function token(text) {
  if (text === "␣") {
    const space = make("mspace");
    space.setAttribute("width", "1.2em");
    return space;
  }
  const found = /^([^_^]+)(?:_([^_^]+))?(?:\^([^_^]+))?$/.exec(text);
  if (!found) return atom(text);
  const [, base, below, above] = found;
  const parts = [base, below, above].filter((part) => part !== undefined).map(atom);
  if (parts.length === 1) return parts[0];
  return make(below !== undefined && above !== undefined ? "msubsup" : below !== undefined ? "msub" : "msup", ...parts);
}

export function row(...parts) {
  return make("mrow", ...parts.flatMap((part) => (typeof part === "string" ? part.split(" ").filter((one) => one).map(token) : [part])));
}

export const frac = (above, below) => make("mfrac", row(above), row(below));
export const root = (...inner) => make("msqrt", row(...inner));
export const over = (sign, below, above) => (above === undefined ? make("munder", atom(sign), row(below)) : make("munderover", atom(sign), row(below), row(above)));
export const power = (base, above) => make("msup", row(base), row(above));

// A list of formulas, each on a line of its own.
export function formula(...lines) {
  const holder = document.createElement("div");
  holder.className = "formula";
  // A formula that is wider than the window scrolls, by keys too.
  holder.tabIndex = 0;
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", "formula");
  for (const line of lines) {
    const math = make("math", Array.isArray(line) ? row(...line) : row(line));
    math.setAttribute("display", "block");
    holder.append(math);
  }
  return holder;
}
