import { askFile } from "./api.js";
import { element } from "./elements.js";
import { say } from "./status.js";

// Sharing: the address of the page, and the maps as files, written by the server as regard look --out writes them.
const FORMATS = [["html", "Page (HTML, opens without a server)"], ["svg", "Drawing (SVG)"], ["png", "Picture (PNG)"], ["json", "Numbers (JSON)"]];

export function shareMenu(root, app) {
  const details = root.appendChild(element("details", "menu"));
  const summary = details.appendChild(element("summary", "button", "Share"));
  const list = details.appendChild(element("div", "items"));
  let exports = null;

  item("Copy the address", async () => {
    try {
      await navigator.clipboard.writeText(window.location.href);
      say("The address is copied. It holds the model, the input and what is chosen.", "good");
    } catch {
      say("The browser does not allow copying; the address is in its address bar.", "warning");
    }
  });
  const files = FORMATS.map(([format, words]) => item(words, () => save(format)));

  function item(words, call) {
    const button = list.appendChild(element("button", "", words));
    button.type = "button";
    button.addEventListener("click", () => {
      details.open = false;
      call();
    });
    return button;
  }

  async function save(format) {
    try {
      const query = exports();
      const blob = await askFile("/v1/attention", { ...query, format });
      download(blob, query.model + "." + format);
    } catch (error) {
      app.fail(error);
    }
  }

  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    details.open = false;
    summary.focus();
  });
  document.addEventListener("click", (event) => {
    if (!details.contains(event.target)) details.open = false;
  });

  // Shows what can be shared of a view. `query` returns the request whose maps are shown; null if there are none.
  function show(query) {
    exports = query;
    for (const button of files) button.hidden = !query;
  }
  return { show };
}

// Gives the person a file.
export function download(blob, name) {
  const link = document.createElement("a");
  const address = URL.createObjectURL(blob);
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
