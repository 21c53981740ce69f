import { scrolledCanvas } from "./canvas.js";
import { drawMap, layOut } from "./drawing.js";
import { firstCell, visible } from "./weights.js";
export { mapPanel };

// A large map that scrolls. It draws only what is visible, and asks a map with `want(rows, columns)` for the rest when it comes
// into sight. `on` has `point(row, column)`, `pin(row)` and `cell(size)`; −1 stands for no row or column.
function mapPanel(root, on) {
  const { scroller, canvas, context, refresh, resize: fitTo } = scrolledCanvas(root, "map", draw);
  scroller.setAttribute("role", "application");
  scroller.setAttribute("aria-roledescription", "attention map");
  const scratch = document.createElement("canvas");
  const seen = { map: null, layer: null, palette: null, most: 1, row: -1, column: -1, cell: 0 };
  let place = null;

  // Shows a map with the tokens of its layer. Maps of the same tokens keep the size of their cells.
  function show(map, layer, look) {
    if (!seen.layer || seen.layer.queries !== layer.queries || seen.layer.keys !== layer.keys) {
      place = null;
      seen.cell = 0;
    }
    Object.assign(seen, { map: map, layer: layer }, look);
    refresh();
  }

  function mark(row, column) {
    seen.row = row;
    seen.column = column;
    refresh();
  }

  function resize(cell) {
    seen.cell = cell;
    refresh();
  }

  function draw() {
    const map = seen.map;
    if (!map) return;
    if (!place) place = layOut(context, seen.layer);
    if (seen.cell === 0) {
      seen.cell = firstCell(map.width, map.height, (root.clientWidth || 900) - place.left - place.beyond);
      on.cell(seen.cell);
    }
    const cell = seen.cell;
    const [wide, high] = fitTo([place.left + map.width * cell + place.beyond, place.top + map.height * cell + 4]);
    const rows = visible(scroller.scrollTop, high - place.top, cell, map.height);
    const columns = visible(scroller.scrollLeft, wide - place.left, cell, map.width);
    if (map.want) map.want(rows, columns);
    const style = getComputedStyle(root);
    const corner = { x: place.left - scroller.scrollLeft, y: place.top - scroller.scrollTop };
    drawMap(context, scratch, map, place, { ...corner, rows, columns, wide, high }, {
      cell: cell,
      most: seen.most,
      palette: seen.palette,
      row: seen.row,
      column: seen.column,
      ink: style.color,
      accent: style.getPropertyValue("--accent").trim(),
    });
  }

  function cellAt(event) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const within = (index, count) => (index >= 0 && index < count ? index : -1);
    const column = Math.floor((x - place.left + scroller.scrollLeft) / seen.cell);
    const row = Math.floor((y - place.top + scroller.scrollTop) / seen.cell);
    return {
      row: y < place.top ? -1 : within(row, seen.map.height),
      column: x < place.left ? -1 : within(column, seen.map.width),
    };
  }

  // Scrolls until a cell is in sight.
  function reveal(row, column) {
    const into = (at, room, scroll) => Math.max((at + 1) * seen.cell - room, Math.min(at * seen.cell, scroll));
    scroller.scrollTop = into(row, scroller.clientHeight - place.top, scroller.scrollTop);
    scroller.scrollLeft = into(column, scroller.clientWidth - place.left, scroller.scrollLeft);
  }

  // On a focused map, arrow keys move from cell to cell.
  function onKey(event) {
    if (!place || event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (step) {
      const row = Math.max(0, Math.min(seen.map.height - 1, seen.row < 0 ? 0 : seen.row + step[0]));
      const column = Math.max(0, Math.min(seen.map.width - 1, seen.column < 0 ? 0 : seen.column + step[1]));
      reveal(row, column);
      on.point(row, column);
    } else if (event.key === "Enter" && seen.row >= 0) on.pin(seen.row);
    else if (event.key === "Escape") on.point(-1, -1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  scroller.addEventListener("pointermove", (event) => {
    if (!place) return;
    const at = cellAt(event);
    on.point(at.row, at.column);
  });
  scroller.addEventListener("pointerleave", () => on.point(-1, -1));
  scroller.addEventListener("click", (event) => {
    if (place && cellAt(event).row >= 0) on.pin(cellAt(event).row);
  });
  scroller.addEventListener("keydown", onKey);
  return { element: scroller, show, mark, resize, refresh };
}
