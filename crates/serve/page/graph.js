import { element } from "./elements.js";
import { said } from "./weights.js";

// A node among the nodes that it sees, with lines as thick as the weights of the chosen head. Clicking a node asks for it.
const SPACE = "http://www.w3.org/2000/svg";
const [WIDE, HIGH] = [640, 400];
const MOST_NODES = 40;

export function graphPicture(root, on) {
  const svg = root.appendChild(document.createElementNS(SPACE, "svg"));
  svg.setAttribute("viewBox", "0 0 " + WIDE + " " + HIGH);
  svg.setAttribute("class", "graph");
  svg.setAttribute("role", "group");
  const line = root.appendChild(element("p", "hint"));
  let seen = null;
  let node = "";

  function add(parent, tag, attributes, text) {
    const made = parent.appendChild(document.createElementNS(SPACE, tag));
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function show(found, input) {
    seen = found.prediction;
    node = String(input.node ?? input);
    const isThere = Boolean(seen && seen.edges);
    svg.toggleAttribute("hidden", !isThere);
    line.hidden = !isThere;
    return isThere;
  }

  function mark(layer, name) {
    if (!seen || !seen.edges) return;
    const heads = seen.heads || [];
    const chosen = heads.map((_, at) => at).filter((at) => heads[at] === name || (layer.key === name && heads[at].startsWith(name + ".")));
    const weightOf = (edge) => chosen.reduce((sum, at) => sum + edge.weight[at] / chosen.length, 0);
    const edges = seen.edges.map((edge) => ({ ...edge, weight: chosen.length > 0 ? weightOf(edge) : 0 }));
    draw(edges.sort((a, b) => b.weight - a.weight), name);
  }

  function draw(edges, name) {
    svg.textContent = "";
    const own = edges.find((edge) => edge.from === node);
    const others = edges.filter((edge) => edge.from !== node).slice(0, MOST_NODES);
    const most = edges.reduce((largest, edge) => Math.max(largest, edge.weight), 1e-9);
    const [x, y] = [WIDE / 2, HIGH / 2];
    svg.setAttribute("aria-label", "Node " + node + " and the nodes that it sees, in " + name);
    // Neighbours keep their places when another head is chosen.
    const places = new Map(others.map((edge) => edge.from).sort().map((id, at, all) => {
      const angle = (2 * Math.PI * at) / all.length - Math.PI / 2;
      const far = all.length > 16 && at % 2 === 1 ? 0.74 : 1;
      return [id, [x + far * 270 * Math.cos(angle), y + far * 165 * Math.sin(angle)]];
    }));
    for (const edge of others) {
      const [a, b] = places.get(edge.from);
      const drawn = add(svg, "line", { x1: a, y1: b, x2: x, y2: y, class: "edge", "stroke-width": 0.5 + (9 * edge.weight) / most, opacity: 0.25 + (0.75 * edge.weight) / most });
      add(drawn, "title", {}, edge.from + " → " + node + ": " + said(edge.weight));
    }
    for (const edge of others) {
      const [a, b] = places.get(edge.from);
      const button = add(svg, "g", { class: "node", role: "button", tabindex: "0", "aria-label": "node " + edge.from + ", weight " + said(edge.weight), "data-node": edge.from });
      add(button, "circle", { cx: a, cy: b, r: 9 });
      add(button, "text", { x: a, y: b - 13, "text-anchor": "middle" }, edge.from);
      add(button, "title", {}, edge.from + ": " + said(edge.weight));
      button.addEventListener("click", () => on.input({ node: edge.from }));
      button.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") on.input({ node: edge.from });
      });
    }
    const center = add(svg, "g", { class: "node own" });
    add(center, "circle", { cx: x, cy: y, r: 13 });
    add(center, "text", { x, y: y - 18, "text-anchor": "middle" }, node + (seen.output ? ": " + seen.output : ""));
    const rest = edges.length - others.length - (own ? 1 : 0);
    line.textContent = "Lines are as thick as the weights in " + name + ", up to " + said(most) + (own ? "; the node's weight on itself is " + said(own.weight) : "") +
      (rest > 0 ? ". The " + rest + " nodes of least weight are left out" : "") + ". Click a node to ask for it.";
  }

  return { show, mark };
}
