import { fit } from "./canvas.js";
import { coloursOf } from "./drawing.js";
import { element } from "./elements.js";
import { blobOf } from "./inputs.js";
import { colourOf, css, largest, palette, said } from "./weights.js";

// The spectrogram of a sound, drawn by the page for the eye alone (the model computes its own), above the weights of a query over time.
const [WIDE, HIGH, STRIP] = [640, 160, 28];
const RATE = 16000;
const WINDOW = 512;

export function soundPicture(root, on) {
  const canvas = root.appendChild(document.createElement("canvas"));
  canvas.className = "gaze";
  canvas.setAttribute("role", "img");
  const line = root.appendChild(element("p", "hint"));
  const context = canvas.getContext("2d");
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  let picture = null;
  let seconds = 0;
  let last = null;

  function show(seen, input) {
    picture = null;
    canvas.hidden = line.hidden = seen.layers.length === 0;
    blobOf(input).arrayBuffer().then((bytes) => new window.OfflineAudioContext(1, 1, RATE).decodeAudioData(bytes)).then((sound) => {
      seconds = sound.duration;
      picture = spectrogram(sound.getChannelData(0));
      draw();
    }, () => { line.textContent = "The browser cannot read this sound."; });
    return seen.layers.length > 0;
  }

  function mark(layer, head, map, row) {
    last = { layer, map, row, name: head };
    draw();
  }

  function times(tokens) {
    return tokens.map((token) => parseFloat(token)).map((time, at) => (Number.isFinite(time) && / ?␣?s$/.test(tokens[at]) ? time : null));
  }

  function draw() {
    if (!picture) return;
    fit(canvas, context, WIDE, HIGH + STRIP + 18);
    const isDark = night.matches;
    drawSpectrogram(isDark);
    const style = getComputedStyle(root);
    context.fillStyle = style.color;
    context.font = "11px sans-serif";
    context.fillText("8 kHz", 3, 12);
    context.textAlign = "right";
    context.fillText(seconds.toFixed(2) + " s", WIDE - 2, HIGH + STRIP + 14);
    context.textAlign = "left";
    context.fillText("0 s", 0, HIGH + STRIP + 14);
    if (!last) return;
    const starts = times(last.layer.keys);
    if (starts.every((start) => start === null)) return;
    const row = Math.max(0, last.row);
    const weights = last.map.values.subarray(row * last.map.width, (row + 1) * last.map.width);
    const most = largest(weights);
    const colours = coloursOf(last.map, palette(isDark));
    starts.forEach((start, at) => {
      if (start === null) return;
      const end = starts[at + 1] ?? seconds;
      const [x, wide] = [(start / seconds) * WIDE, Math.max(1, ((end - start) / seconds) * WIDE)];
      context.fillStyle = css(colourOf(colours, weights[at], most));
      context.fillRect(x, HIGH + 2, wide + 0.5, STRIP - 4);
    });
    const own = times(last.layer.queries)[row];
    if (own !== null && own !== undefined) {
      context.fillStyle = style.getPropertyValue("--accent");
      context.fillRect((own / seconds) * WIDE, 0, 2, HIGH + STRIP);
    }
    line.textContent = "Below: how much “" + last.layer.queries[row] + "” attends to each moment in " + last.name + ", up to " + said(most) + ".";
    canvas.setAttribute("aria-label", "Spectrogram, and how much “" + last.layer.queries[row] + "” attends to each moment");
  }

  function drawSpectrogram(isDark) {
    const bins = WINDOW / 2;
    const image = new ImageData(picture.length, bins);
    const top = picture.reduce((most, frame) => Math.max(most, largest(frame)), 1e-9);
    picture.forEach((frame, x) => frame.forEach((power, bin) => {
      const share = Math.max(0, 1 + Math.log10(Math.max(power, 1e-12) / top) / 6);
      const shade = Math.round(255 * (isDark ? 0.12 + 0.8 * share : 1 - 0.85 * share));
      image.data.set([shade, shade, shade, 255], 4 * ((bins - 1 - bin) * picture.length + x));
    }));
    const scratch = document.createElement("canvas");
    [scratch.width, scratch.height] = [picture.length, bins];
    scratch.getContext("2d").putImageData(image, 0, 0);
    context.drawImage(scratch, 0, 0, WIDE, HIGH);
  }

  canvas.addEventListener("pointermove", (event) => {
    if (!last || !(seconds > 0)) return;
    const box = canvas.getBoundingClientRect();
    const time = ((event.clientX - box.left) / box.width) * seconds;
    const starts = times(last.layer.queries);
    on.point(starts.reduce((found, start, at) => (start !== null && start <= time ? at : found), -1), -1);
  });
  canvas.addEventListener("pointerleave", () => on.point(-1, -1));
  night.addEventListener("change", draw);
  return { show, mark, close: () => night.removeEventListener("change", draw) };
}

// Power of each frequency in windows of 32 ms, at most a thousand of them.
function spectrogram(samples) {
  const hop = Math.max(WINDOW / 4, Math.ceil(samples.length / 1000));
  const frames = [];
  for (let at = 0; at + WINDOW <= Math.max(samples.length, WINDOW); at += hop) {
    const [real, imaginary] = [new Float64Array(WINDOW), new Float64Array(WINDOW)];
    for (let i = 0; i < WINDOW; i++) real[i] = (samples[at + i] || 0) * (0.5 - 0.5 * Math.cos((2 * Math.PI * i) / WINDOW));
    fourier(real, imaginary);
    frames.push(Float64Array.from({ length: WINDOW / 2 }, (_, bin) => real[bin] ** 2 + imaginary[bin] ** 2));
  }
  return frames;
}

// Fast Fourier transform in place; the length is a power of two.
function fourier(real, imaginary) {
  const n = real.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) [real[i], real[j], imaginary[i], imaginary[j]] = [real[j], real[i], imaginary[j], imaginary[i]];
  }
  for (let size = 2; size <= n; size *= 2) {
    const angle = (-2 * Math.PI) / size;
    for (let start = 0; start < n; start += size) {
      for (let k = 0; k < size / 2; k++) {
        const [c, s] = [Math.cos(angle * k), Math.sin(angle * k)];
        const [a, b] = [start + k, start + k + size / 2];
        const [x, y] = [real[b] * c - imaginary[b] * s, real[b] * s + imaginary[b] * c];
        [real[b], imaginary[b]] = [real[a] - x, imaginary[a] - y];
        real[a] += x;
        imaginary[a] += y;
      }
    }
  }
}
