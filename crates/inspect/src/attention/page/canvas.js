import { element } from "./elements.js";
export { fit, scrolledCanvas };

// Gives a canvas as many pixels as the screen has for its size, and clears it.
function fit(canvas, context, wide, high) {
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(wide * density));
  canvas.height = Math.max(1, Math.round(high * density));
  canvas.style.width = wide + "px";
  context.setTransform(density, 0, 0, density, 0, 0);
}

// A canvas in sight of an area that scrolls. `draw` is called once before the next frame if anything asks for it.
function scrolledCanvas(root, name, draw) {
  const scroller = root.appendChild(element("div", name));
  scroller.tabIndex = 0;
  const sizer = scroller.appendChild(element("div"));
  const canvas = sizer.appendChild(document.createElement("canvas"));
  const context = canvas.getContext("2d");
  let isWaiting = false;

  function refresh() {
    if (isWaiting) return;
    isWaiting = true;
    window.requestAnimationFrame(() => {
      isWaiting = false;
      if (scroller.clientWidth > 0) draw();
    });
  }

  // Gives the area its whole size, and the canvas that of what is in sight, which is returned. A canvas of the whole width
  // scrolls sideways with the area.
  function resize(whole, width = scroller.clientWidth) {
    sizer.style.width = whole[0] + "px";
    sizer.style.height = whole[1] + "px";
    const seen = [Math.min(width, whole[0]), Math.min(scroller.clientHeight, whole[1])];
    fit(canvas, context, seen[0], seen[1]);
    canvas.style.height = seen[1] + "px";
    return seen;
  }

  scroller.addEventListener("scroll", refresh);
  if (window.ResizeObserver) new window.ResizeObserver(refresh).observe(root);
  return { scroller, canvas, context, refresh, resize };
}
