// The state of the page in its address: `#view?key=value&…`. Whoever gets the address sees the same.
const LONGEST = 60000;

// Returns the view and its keys.
export function read() {
  const [view, query] = split(window.location.hash.replace(/^#/, ""));
  return { view: decoded(view), ...Object.fromEntries(new URLSearchParams(query)) };
}

// Returns the name of a view; none if the address is damaged.
function decoded(view) {
  try {
    return decodeURIComponent(view);
  } catch (error) {
    return "";
  }
}

function split(hash) {
  const at = hash.indexOf("?");
  return at < 0 ? [hash, ""] : [hash.slice(0, at), hash.slice(at + 1)];
}

// Changes keys; a key without a value is removed. Another view becomes a step of the browser's history.
export function write(changes) {
  const before = read();
  const after = { ...before, ...changes };
  const address = addressOf(after);
  if (address === addressOf(before)) return;
  if (after.view === before.view || before.view === "") window.history.replaceState(null, "", address);
  else window.history.pushState(null, "", address);
}

// Returns the address of a state.
export function addressOf(state) {
  const { view, ...keys } = state;
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(keys)) {
    if (value !== undefined && value !== null && value !== "") query.set(key, value);
  }
  const text = query.toString();
  return "#" + encodeURIComponent(view || "look") + (text ? "?" + text : "");
}

// Inputs are texts, or JSON with a mark before it. An input that makes the address too long is left out of it.
const MARK = "json:";

export function packInput(input) {
  const text = typeof input === "string" && !input.startsWith(MARK) ? input : MARK + JSON.stringify(input);
  return text.length <= LONGEST ? text : undefined;
}

export function unpackInput(text) {
  if (text === undefined) return undefined;
  if (!text.startsWith(MARK)) return text;
  try {
    return JSON.parse(text.slice(MARK.length));
  } catch {
    return undefined;
  }
}
