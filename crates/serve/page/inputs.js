import { element } from "./elements.js";

// Editors of inputs, one for each kind: a text, a picture, a sound, a node, or numbers as JSON. An editor has `set(input)`, and calls
// `onInput(input)` when the person has given another one.
const PAUSE = 500;
const KINDS = { text, image: file, audio: file, node };

export function inputEditor(root, kind, onInput) {
  return (KINDS[kind] || numbers)(root, kind, onInput);
}

function labelled(root, name, control) {
  const label = root.appendChild(element("label", "field"));
  label.appendChild(element("span", "", name));
  label.appendChild(control);
  return control;
}

// Calls a function when typing has paused, or at once by Enter.
function typed(control, isLine, call) {
  let timer = 0;
  control.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(call, PAUSE);
  });
  control.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || (!isLine && event.shiftKey)) return;
    event.preventDefault();
    clearTimeout(timer);
    call();
  });
}

function text(root, kind, onInput) {
  const area = labelled(root, "input", element("textarea", "input"));
  area.rows = 3;
  area.spellcheck = false;
  typed(area, false, () => area.value.trim() && onInput(area.value));
  root.appendChild(element("p", "hint", "Answers follow as you type. Shift and Enter start a new line."));
  return { set: (input) => { area.value = typeof input === "string" ? input : input.text || ""; } };
}

function node(root, kind, onInput) {
  const field = labelled(root, "node", element("input", "input"));
  typed(field, true, () => field.value.trim() && onInput({ node: field.value.trim() }));
  root.appendChild(element("p", "hint", "The name of a node of the model's graph, or click a node in the drawing."));
  return { set: (input) => { field.value = String(input.node ?? input); } };
}

function numbers(root, kind, onInput) {
  const area = labelled(root, "input, as JSON", element("textarea", "input code"));
  area.rows = 6;
  area.spellcheck = false;
  const problem = root.appendChild(element("p", "problem"));
  problem.setAttribute("role", "alert");
  typed(area, false, () => {
    problem.textContent = "";
    try {
      onInput(JSON.parse(area.value));
    } catch (error) {
      problem.textContent = error.message;
    }
  });
  return { set: (input) => { area.value = typeof input === "string" ? JSON.stringify(input) : compact(input); } };
}

// JSON with a line for each vector.
function compact(input) {
  return JSON.stringify(input, null, 1).replace(/\[\s+([^[\]{}]*?)\s+\]/g, (_, inner) => "[" + inner.replace(/\s+/g, " ") + "]");
}

// A picture or a sound: dropped, pasted or chosen.
function file(root, kind, onInput) {
  const [what, types] = kind === "image" ? ["picture (PNG or JPEG)", "image/png,image/jpeg"] : ["sound (WAV)", ".wav,audio/wav,audio/x-wav"];
  const zone = root.appendChild(element("div", "drop"));
  const shown = zone.appendChild(document.createElement(kind === "image" ? "img" : "audio"));
  shown.className = "given";
  if (kind === "image") shown.alt = "the input";
  else shown.controls = true;
  shown.setAttribute("aria-label", "the input");
  const label = zone.appendChild(element("label", "choose", "Drop a " + what + " here, paste it, or "));
  label.appendChild(element("span", "button", "choose a file"));
  const chooser = label.appendChild(element("input"));
  chooser.type = "file";
  chooser.accept = types;
  let address = "";

  async function take(given) {
    if (!given) return;
    const bytes = new Uint8Array(await given.arrayBuffer());
    let binary = "";
    for (let at = 0; at < bytes.length; at += 32768) binary += String.fromCharCode.apply(null, bytes.subarray(at, at + 32768));
    const input = { [kind]: window.btoa(binary) };
    set(input);
    onInput(input);
  }

  function set(input) {
    if (address) URL.revokeObjectURL(address);
    address = URL.createObjectURL(blobOf(input));
    shown.src = address;
  }

  chooser.addEventListener("change", () => take(chooser.files[0]));
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  const paste = (event) => take(Array.from(event.clipboardData.files)[0]);
  document.addEventListener("paste", paste);
  return { set, close: () => document.removeEventListener("paste", paste) };
}

// Returns the file of a picture or a sound.
export function blobOf(input) {
  const [kind, content] = input.image === undefined ? ["audio", input.audio] : ["image", input.image];
  const binary = window.atob(content);
  const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
  const isJpeg = bytes[0] === 0xff && bytes[1] === 0xd8;
  return new Blob([bytes], { type: kind === "audio" ? "audio/wav" : isJpeg ? "image/jpeg" : "image/png" });
}

// Says an input in a few words.
export function brief(input) {
  if (typeof input === "string") return input;
  if (input.node !== undefined) return String(input.node);
  if (input.text !== undefined) return input.text;
  if (input.image !== undefined) return "a picture";
  if (input.audio !== undefined) return "a sound";
  const text = JSON.stringify(input);
  return text.length > 60 ? text.slice(0, 60) + "…" : text;
}
