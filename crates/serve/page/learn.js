import { ask } from "./api.js";
import { element } from "./elements.js";
import { LESSONS } from "./lessons.js";
import { optionControls } from "./options.js";
import { download } from "./share.js";
import { say } from "./status.js";

// Lessons about mechanisms. Everything that is shown is computed by the server, through the layers themselves.
export const title = "Learn";

// The options of the spin glass, whose route has no list of its own.
const GLASS = [
  { name: "d", label: "D", about: "the dimension of the inputs", type: "integer", default: 8, least: 2, most: 20 },
  { name: "n", label: "N", about: "the examples in a prompt", type: "integer", default: 16, least: 1, most: 200, isLogarithmic: true },
  { name: "p", label: "P", about: "the prompts to learn from", type: "integer", default: 64, least: 1, most: 10000, isLogarithmic: true },
  { name: "lambda", label: "λ", about: "the penalty of large entries", type: "number", default: 0.01, least: 0.0001, most: 10, isLogarithmic: true },
];

export function open(root, app, state) {
  const list = root.appendChild(element("nav", "lessons"));
  list.setAttribute("aria-label", "lessons");
  const page = root.appendChild(element("article", "lesson"));
  let waiting = new AbortController();
  let timer = 0;
  const addresses = [];
  let last = null;

  begin();
  async function begin() {
    let mechanisms;
    try {
      mechanisms = (await ask("/v1/show")).mechanisms;
    } catch (error) {
      return app.fail(error);
    }
    const known = (lesson) => mechanisms.find((one) => lesson.mechanism === one.name);
    const lessons = LESSONS.filter((lesson) => lesson.isGlass || known(lesson)).map((lesson) => ({ ...lesson, shown: known(lesson) }));
    // Mechanisms without a lesson are shown as regard show does.
    for (const one of mechanisms) {
      if (!lessons.some((lesson) => lesson.shown === one)) lessons.push({ id: one.name, title: titleOf(one.name), shown: one, about: one.about, source: one.source });
    }
    const chosen = lessons.find((lesson) => lesson.id === state.lesson) || lessons[0];
    lessons.forEach((lesson, at) => {
      const link = list.appendChild(element("a", "", lesson.title));
      link.href = "#learn?lesson=" + lesson.id;
      if (lesson === chosen) link.setAttribute("aria-current", "page");
      link.addEventListener("click", (event) => {
        event.preventDefault();
        app.goTo({ view: "learn", lesson: lessons[at].id });
      });
    });
    show(chosen);
  }

  function show(lesson) {
    app.write({ view: "learn", lesson: lesson.id });
    page.appendChild(element("h2", "title", lesson.title));
    page.appendChild(element("p", "about", lesson.about));
    if (lesson.formula) page.appendChild(lesson.formula());
    if (lesson.attempt) {
      const box = page.appendChild(element("section", "try"));
      const attempt = box.appendChild(element("p", "", lesson.attempt));
      attempt.prepend(element("b", "", "Try: "));
      const see = box.appendChild(element("p", "", lesson.see));
      see.prepend(element("b", "", "See: "));
    }
    const options = lesson.isGlass ? GLASS : lesson.shown.options;
    const seed = { name: "seed", about: "seed of the random numbers", type: "integer", default: 1, least: 0, most: 20 };
    const all = options.some((one) => one.name === "seed") ? options : [...options, seed];
    const controls = optionControls(page.appendChild(element("div", "options")), all, { ...lesson.set, ...given(all) }, (values) => {
      clearTimeout(timer);
      timer = setTimeout(() => compute(lesson, values), 120);
      const changed = Object.entries(values).filter(([name, value]) => value !== all.find((one) => one.name === name).default && value !== (lesson.set || {})[name]);
      app.write({ ...Object.fromEntries(all.map((one) => [one.name, undefined])), ...Object.fromEntries(changed) });
    });
    const result = page.appendChild(element("div", "result"));
    result.setAttribute("aria-live", "polite");
    page.appendChild(element("p", "hint source", "Computed by ")).appendChild(element("code", "", lesson.source || lesson.shown.source));
    compute(lesson, controls.values());
  }

  // The options in the address.
  function given(options) {
    const found = {};
    for (const one of options) {
      if (state[one.name] === undefined) continue;
      found[one.name] = one.type === "integer" || one.type === "number" ? Number(state[one.name]) : state[one.name];
    }
    return found;
  }

  async function compute(lesson, values) {
    waiting.abort();
    waiting = new AbortController();
    const result = page.querySelector(".result");
    result.setAttribute("aria-busy", "true");
    try {
      const set = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== ""));
      const found = lesson.isGlass ? await ask("/v1/icl", set, waiting.signal) : await ask("/v1/show", { mechanism: lesson.shown.name, ...set }, waiting.signal);
      last = { lesson, found };
      draw(result, lesson, found);
    } catch (error) {
      if (error.status === 422 || error.status === 400) say(error.message, "problem");
      else app.fail(error);
    }
    result.setAttribute("aria-busy", "false");
  }

  function draw(result, lesson, found) {
    result.textContent = "";
    if (lesson.isGlass) result.appendChild(element("p", "verdict", "Test error of the ground state: " + found.test_error.toPrecision(3)));
    addresses.splice(0).forEach((one) => URL.revokeObjectURL(one));
    for (const svg of [found.svg, found.spectrum_svg].filter((one) => one)) {
      const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
      addresses.push(address);
      const image = result.appendChild(document.createElement("img"));
      image.src = address;
      image.alt = lesson.title + ", drawn; the numbers are below";
    }
    if (found.text) {
      const numbers = result.appendChild(element("details"));
      numbers.appendChild(element("summary", "", "The numbers"));
      const text = numbers.appendChild(element("pre", "", found.text));
      text.tabIndex = 0;
    }
    const files = result.appendChild(element("p", "hint"));
    for (const [name, type, content] of [["svg", "image/svg+xml", () => found.svg], ["json", "application/json", () => JSON.stringify(found.json ?? found, null, 1)]]) {
      const button = files.appendChild(element("button", "quiet", "Save as " + name.toUpperCase()));
      button.type = "button";
      button.addEventListener("click", () => download(new Blob([content()], { type }), last.lesson.id + "." + name));
    }
  }

  return {
    close: () => {
      clearTimeout(timer);
      waiting.abort();
      addresses.forEach((one) => URL.revokeObjectURL(one));
    },
  };
}

function titleOf(name) {
  if (name === "lstm") return "LSTM";
  return name.charAt(0).toUpperCase() + name.slice(1).replace(/-/g, " ");
}
