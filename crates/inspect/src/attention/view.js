// An attention view: its elements, its state and its event handlers. Texts from the data are inserted as text, never as markup.
function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function mount(root) {
  const data = JSON.parse(root.querySelector("script").textContent);
  const inputs = inputsOf(data).filter((input) => input.groups.some((group) => group.heads.length > 0));
  if (inputs.length === 0) {
    root.appendChild(element("p", "said", "No attention was captured."));
    return null;
  }
  for (const input of inputs) input.groups = input.groups.filter((group) => group.heads.length > 0);
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const state = { input: 0, group: 0, head: 0, row: -1, column: -1, pinned: -1, cell: 0, scale: "usual" };
  let colours = ramp(night.matches ? DARK : LIGHT);
  let isWaiting = false;
  let place = null;
  let tokens = "";

  const groups = () => inputs[state.input].groups;
  const group = () => groups()[state.group];

  function mapOf(layer, head) {
    if (!layer.maps) layer.maps = {};
    if (!layer.maps[head]) {
      if (head === MEAN) {
        layer.maps[head] = mean(layer.heads.map((_, index) => mapOf(layer, index)));
      } else {
        layer.maps[head] = unpack(layer.heads[head].rows, layer.queries.length, layer.keys.length);
        // The unpacked array replaces the rows and is much smaller.
        layer.heads[head].rows = null;
      }
    }
    return layer.maps[head];
  }
  const map = () => mapOf(group(), state.head);
  const activeRow = () => (state.row >= 0 ? state.row : state.pinned);

  // ---- elements ----
  root.tabIndex = 0;
  const controls = root.appendChild(element("div", "controls"));
  const overview = root.appendChild(element("div", "overview"));
  const line = root.appendChild(element("p", "said"));
  line.setAttribute("aria-live", "polite");
  const looking = strip("queries", "tokens looking");
  const lookedAt = strip("keys", "tokens");
  const scroller = root.appendChild(element("div", "map"));
  scroller.tabIndex = 0;
  const sizer = scroller.appendChild(element("div"));
  const canvas = sizer.appendChild(document.createElement("canvas"));
  const context = canvas.getContext("2d");
  const scratch = document.createElement("canvas");

  const inputChoice = choice("input");
  const layerChoice = choice("layer");
  const headChoice = choice("head");
  const scaleChoice = choice("colours up to");
  fill(scaleChoice, [["usual", "90 % of queries"], ["largest", "the largest weight"], ["one", "1"]], "usual");
  fill(inputChoice, inputs.map((input, index) => [index, input.name || "input " + (index + 1)]), 0);
  inputChoice.parentNode.hidden = inputs.length < 2;
  const sizeLabel = controls.appendChild(element("label", "", "cell size"));
  const size = sizeLabel.appendChild(document.createElement("input"));
  size.type = "range";
  size.min = 2;
  size.max = LARGEST_CELL;

  function strip(name, className) {
    const holder = root.appendChild(element("div", "strip"));
    holder.appendChild(element("b", "", name));
    return holder.appendChild(element("div", className));
  }

  function choice(name) {
    const label = controls.appendChild(element("label", "", name));
    return label.appendChild(document.createElement("select"));
  }

  function fill(select, options, chosen) {
    select.textContent = "";
    for (const [value, text] of options) {
      const option = select.appendChild(element("option", "", text));
      option.value = value;
      if (value === chosen) option.selected = true;
    }
  }

  function headName(layer, head) {
    return head === MEAN ? "mean of heads" : layer.heads[head].name;
  }

  // The label above a column of heads.
  function headNumber(layer, head) {
    return head === MEAN ? "mean" : String(layer.heads[head].head);
  }

  // The heads that can be chosen in a layer; if there are several, their mean comes first.
  function headsOf(layer) {
    const heads = layer.heads.map((_, index) => index);
    return layer.heads.length > 1 ? [MEAN].concat(heads) : heads;
  }

  function choose(layer, head) {
    state.group = Math.max(0, Math.min(groups().length - 1, layer));
    state.head = Math.min(group().heads.length - 1, head);
    if (state.head < 0 && group().heads.length < 2) state.head = 0;
    fill(layerChoice, groups().map((one, index) => [index, one.name]), state.group);
    fill(headChoice, headsOf(group()).map((index) => [index, headName(group(), index)]), state.head);
    for (const button of overview.querySelectorAll("button")) {
      const isChosen = Number(button.dataset.layer) === state.group && Number(button.dataset.head) === state.head;
      button.setAttribute("aria-pressed", isChosen ? "true" : "false");
    }
    showTokens();
    refresh();
  }

  function showInput(index) {
    state.input = index;
    state.group = 0;
    buildOverview();
    choose(0, Math.max(0, state.head));
  }

  // ---- the overview ----

  function buildOverview() {
    overview.textContent = "";
    const most = Math.max.apply(null, groups().map((layer) => headsOf(layer).length));
    overview.hidden = most < 2 && groups().length < 2;
    if (overview.hidden) return;
    const side = most <= 5 ? 96 : most <= 9 ? 72 : most <= 13 ? 56 : 44;
    overview.style.gridTemplateColumns = "max-content repeat(" + most + ", max-content)";
    const first = headsOf(groups()[0]).map((head) => headNumber(groups()[0], head));
    const isEven = groups().every((layer) => headsOf(layer).map((head) => headNumber(layer, head)).join() === first.join());
    if (isEven && most > 1) {
      overview.appendChild(element("span"));
      for (const name of first) overview.appendChild(element("span", "top", name));
    }
    const todo = [];
    groups().forEach((layer, index) => {
      overview.appendChild(element("span", "", layer.name));
      const heads = headsOf(layer);
      for (const head of heads) {
        const button = overview.appendChild(document.createElement("button"));
        button.type = "button";
        button.title = layer.name + ", " + headName(layer, head);
        button.setAttribute("aria-label", button.title);
        button.dataset.layer = index;
        button.dataset.head = head;
        const small = button.appendChild(document.createElement("canvas"));
        small.style.width = side + "px";
        small.style.height = side + "px";
        todo.push(() => drawSmall(small, mapOf(layer, head), side, colours));
      }
      for (let empty = heads.length; empty < most; empty++) overview.appendChild(element("span"));
    });
    drawSome(todo, state.input);
  }

  // Draws for at most 30 ms at a time, so that the page stays responsive.
  function drawSome(todo, input) {
    const end = Date.now() + 30;
    while (todo.length > 0 && Date.now() < end && input === state.input) todo.shift()();
    if (todo.length > 0 && input === state.input) setTimeout(() => drawSome(todo, input), 0);
  }

  // ---- the tokens as text ----

  // Layers with the same tokens keep the chosen query and the cell size.
  function showTokens() {
    const shown = JSON.stringify([group().queries, group().keys]);
    if (shown === tokens) return;
    tokens = shown;
    state.row = state.column = state.pinned = -1;
    state.cell = 0;
    place = null;
    for (const [holder, words] of [[looking, group().queries], [lookedAt, group().keys]]) {
      holder.textContent = "";
      words.forEach((token, index) => {
        holder.appendChild(element("span", "", token)).dataset.index = index;
        holder.appendChild(document.createTextNode(" "));
      });
    }
  }

  function shade() {
    const shown = map();
    const row = activeRow();
    const most = row < 0 ? 0 : shadeScale(shown, row);
    for (const span of lookedAt.querySelectorAll("span")) {
      const column = Number(span.dataset.index);
      const value = row < 0 ? 0 : shown.values[row * shown.width + column];
      const colour = colourOf(colours, value, most);
      span.style.background = row < 0 ? "" : css(colour);
      span.style.color = row < 0 ? "" : inkUpon(colour);
      span.title = row < 0 ? "" : said(value);
      span.classList.toggle("chosen", row >= 0 && column === state.column);
    }
    for (const span of looking.querySelectorAll("span")) {
      span.classList.toggle("chosen", Number(span.dataset.index) === row);
    }
    line.textContent = sentence(shown, row);
  }

  // A row is shaded up to its own largest weight, unless all maps use the scale up to 1.
  function shadeScale(shown, row) {
    return state.scale === "one" ? 1 : largest(shown.values.subarray(row * shown.width, (row + 1) * shown.width));
  }

  function sentence(shown, row) {
    if (row < 0) return "Point at a query or a cell of the map to see what the query attends to; click to keep it selected.";
    const token = "“" + group().queries[row] + "” (" + (row + 1) + ")";
    if (state.column >= 0) {
      const key = "“" + group().keys[state.column] + "” (" + (state.column + 1) + ")";
      return token + " → " + key + ": " + said(shown.values[row * shown.width + state.column]);
    }
    const best = strongest(shown, row, 3).map(
      (column) => "“" + group().keys[column] + "” " + said(shown.values[row * shown.width + column]));
    return token + " attends " + (best.length > 0 ? "most to " + best.join(", ") : "to nothing");
  }

  // ---- the map ----

  function refresh() {
    if (isWaiting) return;
    isWaiting = true;
    window.requestAnimationFrame(() => {
      isWaiting = false;
      shade();
      draw();
    });
  }

  function draw() {
    const shown = map();
    if (!place) place = layOut(context, group());
    if (state.cell === 0) {
      const room = (root.clientWidth || 900) - place.left - place.beyond;
      state.cell = firstCell(shown.width, shown.height, room);
      size.value = state.cell;
    }
    const cell = state.cell;
    const whole = [place.left + shown.width * cell + place.beyond, place.top + shown.height * cell + 4];
    sizer.style.width = whole[0] + "px";
    sizer.style.height = whole[1] + "px";
    const wide = Math.min(scroller.clientWidth, whole[0]);
    const high = Math.min(scroller.clientHeight, whole[1]);
    const density = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(wide * density));
    canvas.height = Math.max(1, Math.round(high * density));
    canvas.style.width = wide + "px";
    canvas.style.height = high + "px";
    context.setTransform(density, 0, 0, density, 0, 0);
    const port = {
      x: place.left - scroller.scrollLeft,
      y: place.top - scroller.scrollTop,
      rows: visible(scroller.scrollTop, high - place.top, cell, shown.height),
      columns: visible(scroller.scrollLeft, wide - place.left, cell, shown.width),
      wide: wide,
      high: high,
    };
    const style = getComputedStyle(root);
    drawMap(context, scratch, shown, place, port, {
      cell: cell,
      most: state.scale === "one" ? 1 : shown[state.scale],
      colours: colours,
      row: activeRow(),
      column: state.column,
      ink: style.color,
      accent: style.getPropertyValue("--accent").trim(),
    });
  }

  // ---- events ----

  function cellAt(event) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const within = (index, count) => (index >= 0 && index < count ? index : -1);
    const column = Math.floor((x - place.left + scroller.scrollLeft) / state.cell);
    const row = Math.floor((y - place.top + scroller.scrollTop) / state.cell);
    return {
      row: y < place.top ? -1 : within(row, group().queries.length),
      column: x < place.left ? -1 : within(column, group().keys.length),
    };
  }

  function point(row, column) {
    if (row === state.row && column === state.column) return;
    state.row = row;
    state.column = column;
    refresh();
  }

  function pin(row) {
    state.pinned = row === state.pinned ? -1 : row;
    refresh();
  }

  function indexOf(event) {
    const index = event.target.dataset ? event.target.dataset.index : undefined;
    return index === undefined ? -1 : Number(index);
  }

  scroller.addEventListener("pointermove", (event) => {
    if (!place) return;
    const at = cellAt(event);
    point(at.row, at.column);
  });
  scroller.addEventListener("pointerleave", () => point(-1, -1));
  scroller.addEventListener("click", (event) => {
    if (place && cellAt(event).row >= 0) pin(cellAt(event).row);
  });
  scroller.addEventListener("scroll", refresh);
  looking.addEventListener("pointerover", (event) => point(indexOf(event), -1));
  looking.addEventListener("pointerleave", () => point(-1, -1));
  looking.addEventListener("click", (event) => {
    if (indexOf(event) >= 0) pin(indexOf(event));
  });
  lookedAt.addEventListener("pointerover", (event) => {
    state.column = indexOf(event);
    refresh();
  });
  lookedAt.addEventListener("pointerleave", () => point(-1, -1));
  overview.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(Number(button.dataset.layer), Number(button.dataset.head));
  });
  inputChoice.addEventListener("change", () => showInput(Number(inputChoice.value)));
  layerChoice.addEventListener("change", () => choose(Number(layerChoice.value), state.head));
  headChoice.addEventListener("change", () => choose(state.group, Number(headChoice.value)));
  scaleChoice.addEventListener("change", () => {
    state.scale = scaleChoice.value;
    refresh();
  });
  size.addEventListener("input", () => {
    state.cell = Number(size.value);
    refresh();
  });
  night.addEventListener("change", () => {
    colours = ramp(night.matches ? DARK : LIGHT);
    buildOverview();
    choose(state.group, state.head);
  });

  // Arrow keys choose layer and head, unless the focus is on a control or on a map that scrolls.
  function onKey(event) {
    if (/^(SELECT|INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    const isScrolled = scroller.scrollWidth > scroller.clientWidth || scroller.scrollHeight > scroller.clientHeight;
    if (event.target === scroller && isScrolled) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const heads = headsOf(group());
    const at = heads.indexOf(state.head);
    if (event.key === "ArrowLeft") choose(state.group, heads[Math.max(0, at - 1)]);
    else if (event.key === "ArrowRight") choose(state.group, heads[Math.min(heads.length - 1, at + 1)]);
    else if (event.key === "ArrowUp") choose(Math.max(0, state.group - 1), state.head);
    else if (event.key === "ArrowDown") choose(Math.min(groups().length - 1, state.group + 1), state.head);
    else return;
    event.preventDefault();
    const chosen = overview.querySelector("button[aria-pressed=true]");
    if (chosen && chosen.scrollIntoView) chosen.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  root.addEventListener("keydown", onKey);
  if (window.ResizeObserver) new window.ResizeObserver(refresh).observe(root);

  showInput(0);
  return onKey;
}

if (typeof document !== "undefined") {
  const keys = Array.from(document.querySelectorAll(".attention")).map(mount).filter((key) => key !== null);
  // With a single view on the page, arrow keys work without a click.
  if (keys.length === 1) {
    document.addEventListener("keydown", (event) => {
      if (event.target === document.body) keys[0](event);
    });
  }
}
