import { element } from "./elements.js";

// Curves over the steps of training, as SVG. A series is `{name, points: [[step, value]…], isDotted}`.
const SPACE = "http://www.w3.org/2000/svg";
const [WIDE, HIGH] = [460, 220];
const [LEFT, RIGHT, TOP, BELOW] = [48, 10, 10, 26];
// The palette of the figures, by Okabe and Ito, which suits every kind of colour vision.
const COLOURS = 6;

export function drawCurves(root, title, series, on) {
  root.textContent = "";
  root.appendChild(element("figcaption", "", title));
  const svg = node(root, "svg", { viewBox: "0 0 " + WIDE + " " + HIGH, class: "curves", role: "img", "aria-label": title + ": " + series.map(lastOf).join("; ") });
  const points = series.flatMap((one) => one.points);
  if (points.length === 0) {
    node(svg, "text", { x: LEFT, y: HIGH / 2, class: "tick" }, "nothing yet");
    return;
  }
  const xs = axis(points.map((point) => point[0]), 5);
  const ys = axis(points.map((point) => point[1]), 4);
  const x = (step) => LEFT + ((step - xs.least) / (xs.most - xs.least)) * (WIDE - LEFT - RIGHT);
  const y = (value) => HIGH - BELOW - ((value - ys.least) / (ys.most - ys.least)) * (HIGH - TOP - BELOW);
  for (const tick of ys.ticks) {
    node(svg, "line", { x1: LEFT, x2: WIDE - RIGHT, y1: y(tick), y2: y(tick), class: "rule" });
    node(svg, "text", { x: LEFT - 6, y: y(tick) + 4, class: "tick", "text-anchor": "end" }, short(tick));
  }
  for (const tick of xs.ticks) node(svg, "text", { x: x(tick), y: HIGH - 8, class: "tick", "text-anchor": "middle" }, short(tick));
  series.forEach((one, index) => {
    const kind = "series s" + ((one.colour ?? index) % COLOURS) + (one.isDotted ? " dotted" : "");
    node(svg, "polyline", { points: one.points.map((point) => x(point[0]).toFixed(1) + "," + y(point[1]).toFixed(1)).join(" "), class: kind });
    if (one.points.length < 60) one.points.forEach((point) => node(svg, "circle", { cx: x(point[0]), cy: y(point[1]), r: one.points.length < 2 ? 3 : 2, class: kind }));
  });
  const cursor = node(svg, "line", { y1: TOP, y2: HIGH - BELOW, class: "cursor", visibility: "hidden" });
  const legend = root.appendChild(element("p", "legend"));
  const labels = series.map((one, index) => {
    const label = legend.appendChild(element("span", "key s" + ((one.colour ?? index) % COLOURS) + (one.isDotted ? " dotted" : ""), lastOf(one)));
    return label;
  });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = xs.least + (((event.clientX - box.left) / box.width) * WIDE - LEFT) / (WIDE - LEFT - RIGHT) * (xs.most - xs.least);
    series.forEach((one, index) => {
      const near = one.points.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best), one.points[0] || [0, NaN]);
      labels[index].textContent = one.name + " " + short(near[1]) + " at " + near[0];
    });
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    cursor.setAttribute("visibility", at >= xs.least && at <= xs.most ? "visible" : "hidden");
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    series.forEach((one, index) => { labels[index].textContent = lastOf(one); });
  });
  if (on) svg.addEventListener("click", on);
}

function lastOf(one) {
  return one.points.length > 0 ? one.name + " " + short(one.points[one.points.length - 1][1]) : one.name;
}

function node(parent, tag, attributes, text) {
  const made = parent.appendChild(document.createElementNS(SPACE, tag));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Returns round ticks around values.
function axis(values, count) {
  let least = values.reduce((a, b) => Math.min(a, b), Infinity);
  let most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  if (least === most) {
    least -= Math.abs(least) / 2 || 1;
    most += Math.abs(most) / 2 || 1;
  }
  const rough = (most - least) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const ticks = [];
  for (let tick = Math.ceil(least / step) * step; tick <= most + step * 1e-9; tick += step) ticks.push(tick);
  return { least, most, ticks };
}

// A number in a few characters.
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return (value / 1000).toFixed(size >= 100000 ? 0 : 1).replace(/\.0$/, "") + "k";
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

// Averages neighbouring points, so that a noisy curve can be read.
export function smoothed(points, most) {
  const size = Math.max(1, Math.ceil(points.length / most));
  const found = [];
  for (let at = 0; at < points.length; at += size) {
    const part = points.slice(at, at + size);
    found.push([part[part.length - 1][0], part.reduce((sum, point) => sum + point[1], 0) / part.length]);
  }
  return found;
}
