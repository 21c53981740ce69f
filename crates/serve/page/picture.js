import { element } from "./elements.js";
import { graphPicture } from "./graph.js";
import { gridPicture } from "./gaze.js";
import { inkPicture } from "./ink.js";
import { soundPicture } from "./sound.js";

// Attention over the input itself: over a picture, a spectrogram, the edges of a graph or the strokes of a pen. A part has
// `show(seen, input)`, and `mark(layer, head, map, row)` when a head and a query are chosen.
const PARTS = { image: gridPicture, audio: soundPicture, node: graphPicture };

export function picturePanel(root, model, on) {
  const holder = root.appendChild(element("section", "picture"));
  holder.hidden = true;
  const make = model.task === "write" ? inkPicture : PARTS[model.input];
  const title = holder.appendChild(element("h2", "", { image: "Picture", audio: "Spectrogram", node: "Graph" }[model.input] || "Writing"));
  const part = make ? make(holder, on) : null;
  const drawn = holder.appendChild(element("details", "drawn"));
  drawn.appendChild(element("summary", "", "As regard look draws it"));
  const image = drawn.appendChild(document.createElement("img"));
  let address = "";
  drawn.hidden = true;

  function show(seen, input) {
    const isThere = part ? part.show(seen, input) : false;
    title.hidden = !part || isThere === false;
    if (address) URL.revokeObjectURL(address);
    address = "";
    drawn.hidden = !seen.picture;
    if (seen.picture) {
      // As an image the drawing can neither run scripts nor fetch anything.
      address = URL.createObjectURL(new Blob([seen.picture], { type: "image/svg+xml" }));
      image.src = address;
      image.alt = "The input" + (seen.prediction ? " with the answer: " + seen.prediction.output : "");
      drawn.open = !part;
    }
    holder.hidden = isThere === false && drawn.hidden;
  }

  return {
    show,
    mark: (...chosen) => part && part.mark && part.mark(...chosen),
    close: () => {
      if (address) URL.revokeObjectURL(address);
      if (part && part.close) part.close();
    },
  };
}
