import { fit } from "./canvas.js";
import { coloursOf } from "./drawing.js";
import { element } from "./elements.js";
import { colourOf, css, inkUpon, largest, palette } from "./weights.js";

// A text as the pen writes it, point by point, with the characters that its window looks at.
const HIGH = 180;
const POINTS_A_SECOND = 60;

export function inkPicture(root, on) {
  const canvas = root.appendChild(document.createElement("canvas"));
  canvas.className = "ink";
  canvas.setAttribute("role", "img");
  const text = root.appendChild(element("p", "tokens window"));
  const controls = root.appendChild(element("div", "controls"));
  const play = controls.appendChild(element("button", "button", "Write"));
  play.type = "button";
  const label = controls.appendChild(element("label", "", "point "));
  const slider = label.appendChild(document.createElement("input"));
  slider.type = "range";
  slider.min = 1;
  const count = controls.appendChild(element("output", "number"));
  const context = canvas.getContext("2d");
  let points = [];
  let gaze = null;
  let timer = 0;

  function show(seen) {
    stop();
    const strokes = seen.prediction && seen.prediction.strokes;
    if (!strokes || strokes.length === 0) return false;
    points = strokes.flatMap((stroke, index) => stroke.map((point, at) => ({ x: point[0], y: point[1], isFirst: at === 0, index })));
    gaze = null;
    slider.max = points.length;
    canvas.setAttribute("aria-label", "Handwriting of " + seen.prediction.output);
    const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    slider.value = isStill ? points.length : 1;
    draw();
    if (!isStill) start();
    return true;
  }

  function mark(layer, head, map) {
    gaze = { layer, map };
    draw();
  }

  function start() {
    const from = Number(slider.value) >= points.length ? 1 : Number(slider.value);
    const since = performance.now();
    play.textContent = "Pause";
    const step = (now) => {
      slider.value = Math.min(points.length, Math.round(from + ((now - since) / 1000) * POINTS_A_SECOND));
      draw();
      if (Number(slider.value) < points.length) timer = window.requestAnimationFrame(step);
      else stop();
    };
    timer = window.requestAnimationFrame(step);
  }

  function stop() {
    window.cancelAnimationFrame(timer);
    timer = 0;
    play.textContent = "Write";
  }

  function draw() {
    if (points.length === 0) return;
    const shown = Number(slider.value);
    count.textContent = shown + " of " + points.length;
    const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
    const [left, top] = [Math.min(...xs), Math.min(...ys)];
    const [wide, high] = [Math.max(...xs) - left || 1, Math.max(...ys) - top || 1];
    const room = Math.max(240, Math.min(900, root.clientWidth || 640));
    const scale = Math.min((room - 40) / wide, (HIGH - 40) / high);
    fit(canvas, context, room, HIGH);
    const style = getComputedStyle(root);
    context.strokeStyle = style.color;
    context.fillStyle = style.color;
    context.lineWidth = 2.2;
    context.lineCap = context.lineJoin = "round";
    const place = (point) => [20 + (point.x - left) * scale, (HIGH - high * scale) / 2 + (point.y - top) * scale];
    context.beginPath();
    points.slice(0, shown).forEach((point) => {
      const [x, y] = place(point);
      if (point.isFirst) {
        context.moveTo(x, y);
        context.lineTo(x + 0.01, y);
      } else context.lineTo(x, y);
    });
    context.stroke();
    const [x, y] = place(points[shown - 1]);
    context.beginPath();
    context.fillStyle = style.getPropertyValue("--accent");
    context.arc(x, y, 4, 0, 2 * Math.PI);
    context.fill();
    shade(shown - 1);
  }

  // Shades the characters of the text by the window at a point.
  function shade(point) {
    if (!gaze) return;
    const { layer, map } = gaze;
    if (text.childElementCount !== layer.keys.length) {
      text.textContent = "";
      for (const key of layer.keys) text.appendChild(element("span", "", key));
    }
    const row = Math.min(point, map.height - 1);
    const weights = map.values.subarray(row * map.width, (row + 1) * map.width);
    const colours = coloursOf(map, palette(window.matchMedia("(prefers-color-scheme: dark)").matches));
    Array.from(text.children).forEach((span, at) => {
      const colour = colourOf(colours, weights[at], largest(weights));
      span.style.background = css(colour);
      span.style.color = inkUpon(colour);
    });
  }

  play.addEventListener("click", () => (timer ? stop() : start()));
  slider.addEventListener("input", () => {
    stop();
    draw();
    on.point(Number(slider.value) - 1, -1);
  });
  return { show, mark, close: stop };
}
