import { scrolledCanvas } from "./canvas.js";
import { LABEL_FONT, coloursOf, shortened } from "./drawing.js";
import { visible } from "./weights.js";
export { linePanel };

const STEP = 22;
const MIDDLE = 220;

// Lines from each query, on the left, to the keys it attends to, on the right. Pointing at a query shows its lines alone, pointing at
// a key those that reach it. Only tokens in sight are drawn. `on` has `point(row, column)` and `pin(row)`.
function linePanel(root, on) {
  const { scroller, canvas, context, refresh, resize } = scrolledCanvas(root, "lines", draw);
  scroller.setAttribute("role", "group");
  scroller.setAttribute("aria-label", "lines from queries to keys");
  const seen = { map: null, layer: null, palette: null, most: 1, row: -1, column: -1 };
  let labels = null;

  function show(map, layer, look) {
    if (!seen.layer || seen.layer.queries !== layer.queries || seen.layer.keys !== layer.keys) labels = null;
    Object.assign(seen, { map: map, layer: layer }, look);
    refresh();
  }

  function mark(row, column) {
    seen.row = row;
    seen.column = column;
    refresh();
  }

  function layOut() {
    const short = (tokens) => tokens.map((token) => shortened(context, token));
    const widest = (tokens) => tokens.reduce((most, token) => Math.max(most, context.measureText(token).width), 20);
    const [rows, columns] = [short(seen.layer.queries), short(seen.layer.keys)];
    const left = Math.ceil(widest(rows)) + 16;
    labels = { rows, columns, left, wide: left + MIDDLE + Math.ceil(widest(columns)) + 16 };
  }

  function draw() {
    const map = seen.map;
    if (!map) return;
    if (!labels) layOut();
    const whole = [Math.max(labels.wide, Math.min(scroller.clientWidth, labels.wide + 240)), Math.max(map.height, map.width) * STEP + 8];
    const [wide, high] = resize(whole, whole[0]);
    const rows = visible(scroller.scrollTop, high, STEP, map.height);
    const columns = visible(scroller.scrollTop, high, STEP, map.width);
    if (map.want && seen.row >= 0) map.want([seen.row, seen.row + 1], [0, map.width]);
    else if (map.want && seen.column >= 0) map.want([0, map.height], [seen.column, seen.column + 1]);
    else if (map.want) map.want(rows, columns);
    const right = wide - (labels.wide - labels.left - MIDDLE);
    drawLines(rows, columns, right);
    drawLabels(rows, columns, right);
  }

  const yOf = (index) => (index + 0.5) * STEP - scroller.scrollTop + 4;

  function drawLines(rows, columns, right) {
    const map = seen.map;
    const colours = coloursOf(map, seen.palette);
    const [from, to] = seen.row >= 0 ? [seen.row, seen.row + 1] : seen.column >= 0 ? [0, map.height] : rows;
    const [first, last] = seen.row < 0 && seen.column >= 0 ? [seen.column, seen.column + 1] : seen.row >= 0 ? [0, map.width] : columns;
    context.lineCap = "round";
    for (let row = from; row < to; row++) {
      for (let column = first; column < last; column++) {
        const value = map.values[row * map.width + column];
        const share = Math.min(1, Math.abs(value) / seen.most);
        if (!(share > 0.02)) continue;
        const end = colours.list[colours.isSigned ? (value < 0 ? 40 : 215) : 150];
        context.strokeStyle = "rgba(" + end.join(",") + "," + (0.08 + 0.92 * share) + ")";
        context.lineWidth = 0.5 + 4.5 * share;
        context.beginPath();
        const [x, y, z] = [labels.left, yOf(row), yOf(column)];
        context.moveTo(x, y);
        context.bezierCurveTo(x + (right - x) * 0.4, y, right - (right - x) * 0.4, z, right, z);
        context.stroke();
      }
    }
  }

  function drawLabels(rows, columns, right) {
    const style = getComputedStyle(root);
    const accent = style.getPropertyValue("--accent").trim();
    context.font = LABEL_FONT;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (let row = rows[0]; row < rows[1]; row++) {
      context.fillStyle = row === seen.row ? accent : style.color;
      context.fillText(labels.rows[row], labels.left - 8, yOf(row));
    }
    context.textAlign = "left";
    for (let column = columns[0]; column < columns[1]; column++) {
      context.fillStyle = column === seen.column ? accent : style.color;
      context.fillText(labels.columns[column], right + 8, yOf(column));
    }
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const index = Math.floor((event.clientY - box.top - 4 + scroller.scrollTop) / STEP);
    const isLeft = event.clientX - box.left < box.width / 2;
    const isIn = index >= 0 && index < (isLeft ? seen.map.height : seen.map.width);
    return { row: isLeft && isIn ? index : -1, column: !isLeft && isIn ? index : -1 };
  }

  // On focused lines, up and down go from token to token, left and right to the queries and to the keys.
  function onKey(event) {
    const isKeys = seen.row < 0 && seen.column >= 0;
    const at = Math.max(isKeys ? seen.column : seen.row, -1);
    const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: 0, ArrowRight: 0 }[event.key];
    if (!seen.map || step === undefined) return;
    const toKeys = event.key === "ArrowRight" || (isKeys && event.key !== "ArrowLeft");
    const to = Math.max(0, Math.min((toKeys ? seen.map.width : seen.map.height) - 1, at + step));
    scroller.scrollTop = Math.max((to + 2) * STEP - scroller.clientHeight, Math.min(to * STEP, scroller.scrollTop));
    on.point(toKeys ? -1 : to, toKeys ? to : -1);
    event.preventDefault();
    event.stopPropagation();
  }

  scroller.addEventListener("keydown", onKey);
  scroller.addEventListener("pointermove", (event) => {
    if (!seen.map || !labels) return;
    const found = at(event);
    on.point(found.row, found.column);
  });
  scroller.addEventListener("pointerleave", () => on.point(-1, -1));
  scroller.addEventListener("click", (event) => {
    if (seen.map && at(event).row >= 0) on.pin(at(event).row);
  });
  return { element: scroller, show, mark, refresh };
}
