import { choice, element, fill } from "./elements.js";
import { mapPanel } from "./map.js";
import { difference, palette, said } from "./weights.js";

// One head of two answers side by side, and the difference of its weights. Pointing at a cell of one map marks it in all three.
export function pairPanel(root, names, onChoose) {
  const controls = root.appendChild(element("div", "controls"));
  const choices = names.map((name) => choice(controls, "head" + (names[0] === name ? "" : " of " + name)));
  const line = root.appendChild(element("p", "said"));
  line.setAttribute("aria-live", "polite");
  const row = root.appendChild(element("div", "maps"));
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const titles = [...names, "difference"];
  const figures = titles.map((name) => {
    const figure = row.appendChild(element("figure", "attention"));
    figure.appendChild(element("figcaption", "", name));
    return figure;
  });
  const panels = figures.map((figure) => mapPanel(figure, { point, pin: () => {}, cell: () => {} }));
  const note = figures[2].appendChild(element("p", "hint"));
  let sides = [];
  let shown = null;
  let isLinked = false;

  // Shows the layers of two answers. If `linked`, both show the head of the same name.
  function show(first, second, linked, chosen) {
    isLinked = linked;
    sides = [first, second].map((layers, index) => {
      const heads = headsIn(layers);
      const wanted = chosen[index] || (sides[index] && sides[index].name);
      const found = heads.find((one) => one.name === wanted) || heads[0];
      fill(choices[index], heads.map((one) => [one.name, one.name]), found && found.name);
      return { heads, name: found && found.name };
    });
    choices[1].parentNode.hidden = isLinked;
    choices[0].parentNode.firstChild.textContent = isLinked ? "head" : "head of " + names[0];
    if (isLinked) follow();
    root.hidden = sides.some((side) => side.heads.length === 0);
    refresh();
  }

  function headsIn(layers) {
    return layers.flatMap((layer) => layer.heads.map((head, at) => ({ name: head.name, map: () => layer.map(at), layer })));
  }

  function follow() {
    const same = sides[1].heads.find((one) => one.name === sides[0].name);
    sides[1].name = same ? same.name : sides[1].heads[0] && sides[1].heads[0].name;
  }

  function chosenOf(side) {
    return side.heads.find((one) => one.name === side.name);
  }

  function refresh() {
    const heads = sides.map(chosenOf);
    if (heads.length < 2 || heads.some((head) => !head)) return;
    const colours = palette(night.matches);
    const maps = heads.map((head) => head.map());
    const most = Math.max(maps[0].usual, maps[1].usual);
    heads.forEach((head, index) => {
      figures[index].firstChild.textContent = names[index] + ": " + head.name;
      panels[index].element.setAttribute("aria-label", "Attention map of " + head.name + ", " + names[index]);
      panels[index].show(maps[index], head.layer, { palette: colours, most });
    });
    const between = difference(maps[1], maps[0]);
    panels[2].element.hidden = !between;
    const isEqual = between && !between.want && !maps.some((map) => map.want) && between.largest < 0.00005;
    note.textContent = isEqual ? "The two maps are equal." : between ? names[1] + " − " + names[0] + ": blue is less attention, red is more, up to " + said(between.largest) + "."
      : "The maps have different sizes, " + maps.map((map) => map.height + " × " + map.width).join(" and ") + ", so they cannot be subtracted.";
    if (!between) return;
    if (maps.some((map) => map.want)) between.want = (rows, columns) => maps.forEach((map) => map.want && map.want(rows, columns));
    panels[2].element.setAttribute("aria-label", "Difference of the two maps");
    // Rows and columns are named by the tokens of the second answer.
    panels[2].show(between, heads[1].layer, { palette: colours, most: between.usual || 1 });
    shown = { heads, maps, between };
  }

  function point(at, column) {
    panels.forEach((panel) => panel.mark(at, column));
    if (!shown || at < 0 || column < 0) {
      line.textContent = "Point at a cell to compare its weights.";
      return;
    }
    const { heads, maps, between } = shown;
    const value = (map) => (at < map.height && column < map.width ? map.values[at * map.width + column] : NaN);
    const [query, key] = [heads[1].layer.queries[at], heads[1].layer.keys[column]];
    line.textContent = "“" + query + "” → “" + key + "”: " + said(value(maps[0])) + ", then " + said(value(maps[1])) + ", difference " + said(value(between));
  }

  function choose(name) {
    if (sides.length < 2) return;
    sides[0].name = name;
    choices[0].value = name;
    if (isLinked) follow();
    refresh();
  }

  choices.forEach((select, index) => select.addEventListener("change", () => {
    sides[index].name = select.value;
    if (isLinked) follow();
    refresh();
    onChoose(sides.map((side) => side.name));
  }));
  const again = () => refresh();
  night.addEventListener("change", again);
  point(-1, -1);
  return { show, choose, refresh, close: () => night.removeEventListener("change", again) };
}
