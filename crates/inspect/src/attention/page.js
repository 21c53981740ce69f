// Attention maps to move about in. Every element `.attention` of the page holds its data and gets a view of its own.
// Text of the data reaches the page as text only, never as markup.
(function () {
  "use strict";

  // White to dark blue, as in the drawings; by night from the dark ground to bright.
  const LIGHT = [
    [255, 255, 255], [225, 236, 247], [195, 217, 238], [156, 195, 226], [110, 168, 211],
    [68, 137, 193], [34, 104, 168], [13, 71, 136], [8, 40, 92],
  ];
  const DARK = [[30, 30, 34], [28, 62, 104], [36, 110, 168], [92, 170, 214], [176, 220, 236], [250, 252, 255]];
  const ABSENT = [136, 136, 136];
  const UNIT = 10000;
  const MEAN = -1;
  const LABEL_FONT = "12px DejaVu Sans, Verdana, sans-serif";
  const LONGEST_LABEL = 130;
  const ANGLE = 55 * Math.PI / 180;
  const LARGEST_CELL = 40;

  // ---- what needs no page ----

  // The rows of the data, in ten-thousandths and without their last zeros, as one array; null is not a number.
  function unpack(rows, height, width) {
    const values = new Float32Array(height * width);
    for (let row = 0; row < height && row < rows.length; row++) {
      const weights = rows[row];
      for (let column = 0; column < width && column < weights.length; column++) {
        values[row * width + column] = weights[column] === null ? NaN : weights[column] / UNIT;
      }
    }
    return { height: height, width: width, values: values, largest: largest(values) };
  }

  function largest(values) {
    let most = 0;
    for (let i = 0; i < values.length; i++) {
      if (values[i] > most) most = values[i];
    }
    return most;
  }

  // The mean of maps of one shape.
  function mean(maps) {
    const first = maps[0];
    const values = new Float32Array(first.values.length);
    for (const map of maps) {
      for (let i = 0; i < values.length; i++) values[i] += map.values[i] / maps.length;
    }
    return { height: first.height, width: first.width, values: values, largest: largest(values) };
  }

  // A map of at most `side` cells a side. The largest of the cells that fall together: a thin diagonal stays.
  function pooled(map, side) {
    const height = Math.min(map.height, side);
    const width = Math.min(map.width, side);
    const values = new Float32Array(height * width).fill(NaN);
    for (let row = 0; row < map.height; row++) {
      const to = Math.floor(row * height / map.height) * width;
      for (let column = 0; column < map.width; column++) {
        const at = to + Math.floor(column * width / map.width);
        const value = map.values[row * map.width + column];
        if (!(values[at] >= value) && value === value) values[at] = value;
      }
    }
    return { height: height, width: width, values: values, largest: map.largest };
  }

  // 256 colours between the stops.
  function ramp(stops) {
    const colours = [];
    for (let i = 0; i < 256; i++) {
      const place = i / 255 * (stops.length - 1);
      const index = Math.min(Math.floor(place), stops.length - 2);
      const part = place - index;
      colours.push(stops[index].map((from, c) => Math.round(from + (stops[index + 1][c] - from) * part)));
    }
    return colours;
  }

  function colourOf(colours, value, most) {
    if (value !== value) return ABSENT;
    const place = most > 0 ? value / most : 0;
    return colours[Math.max(0, Math.min(255, Math.round(place * 255)))];
  }

  // Black or white, whichever reads better upon a colour.
  function inkUpon(colour) {
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 140 ? "#111" : "#fff";
  }

  function css(colour) {
    return "rgb(" + colour[0] + "," + colour[1] + "," + colour[2] + ")";
  }

  function said(value) {
    return value === value ? value.toFixed(4) : "no value";
  }

  // The columns with the largest weights of a row, the largest first.
  function strongest(map, row, count) {
    const found = [];
    for (let column = 0; column < map.width; column++) {
      if (map.values[row * map.width + column] > 0) found.push(column);
    }
    const weight = (column) => map.values[row * map.width + column];
    return found.sort((a, b) => weight(b) - weight(a) || a - b).slice(0, count);
  }

  // Inputs in their order, each with its layers.
  function inputsOf(data) {
    const inputs = [];
    for (const group of data.groups) {
      const name = group.input || data.title;
      let input = inputs.find((known) => known.name === name);
      if (!input) {
        input = { name: name, groups: [] };
        inputs.push(input);
      }
      input.groups.push(group);
    }
    return inputs;
  }

  // The size of cells at first: all columns in the room there is, but never too small to read their labels.
  function firstCell(columns, rows, room) {
    const fit = Math.floor(Math.min(room / Math.max(columns, 1), 720 / Math.max(rows, 1)));
    return Math.max(14, Math.min(LARGEST_CELL, fit));
  }

  // Which cells a window of the map shows: [first, beyond the last].
  function visible(scroll, room, cell, count) {
    const first = Math.max(0, Math.min(count, Math.floor(scroll / cell)));
    return [first, Math.max(first, Math.min(count, Math.ceil((scroll + room) / cell)))];
  }

  // ---- one view ----

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
    const state = { input: 0, group: 0, head: 0, row: -1, column: -1, pinned: -1, cell: 0, scale: "map" };
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
        }
      }
      return layer.maps[head];
    }
    const map = () => mapOf(group(), state.head);
    const activeRow = () => (state.row >= 0 ? state.row : state.pinned);

    // The parts of the view.
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
    const cells = document.createElement("canvas");
    const cellContext = cells.getContext("2d");

    const inputChoice = choice("input");
    const layerChoice = choice("layer");
    const headChoice = choice("head");
    const scaleChoice = choice("colours up to");
    fill(scaleChoice, [["map", "the map's largest"], ["one", "1"]], "map");
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
      return head === MEAN ? "mean of heads" : "head " + (layer.heads[head].head + 1);
    }

    // Heads of a layer as they can be chosen: the mean first where it is one of several.
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
      const first = headsOf(groups()[0]).map((head) => headName(groups()[0], head));
      const isEven = groups().every((layer) => headsOf(layer).map((head) => headName(layer, head)).join() === first.join());
      if (isEven && most > 1) {
        overview.appendChild(element("span"));
        for (const name of first) overview.appendChild(element("span", "top", name.replace(/^head | of heads$/, "")));
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
          todo.push(() => drawSmall(small, mapOf(layer, head), side));
        }
        for (let empty = heads.length; empty < most; empty++) overview.appendChild(element("span"));
      });
      drawSome(todo, state.input);
    }

    // A few at a time, so that the page answers meanwhile.
    function drawSome(todo, input) {
      const end = Date.now() + 30;
      while (todo.length > 0 && Date.now() < end && input === state.input) todo.shift()();
      if (todo.length > 0 && input === state.input) setTimeout(() => drawSome(todo, input), 0);
    }

    function drawSmall(small, whole, side) {
      const part = pooled(whole, 2 * side);
      if (part.height === 0 || part.width === 0) return;
      small.width = part.width;
      small.height = part.height;
      small.getContext("2d").putImageData(pixels(part, [0, part.height], [0, part.width], part.largest), 0, 0);
    }

    function pixels(of, rows, columns, most) {
      const wide = columns[1] - columns[0];
      const image = new ImageData(wide, rows[1] - rows[0]);
      let at = 0;
      for (let row = rows[0]; row < rows[1]; row++) {
        for (let column = columns[0]; column < columns[1]; column++) {
          const colour = colourOf(colours, of.values[row * of.width + column], most);
          image.data[at] = colour[0];
          image.data[at + 1] = colour[1];
          image.data[at + 2] = colour[2];
          image.data[at + 3] = 255;
          at += 4;
        }
      }
      return image;
    }

    // ---- the tokens as text ----

    // Layers over the same tokens keep the chosen query and the size of cells.
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
      const most = row < 0 ? 0 : scaleOf(shown, shown.values.subarray(row * shown.width, (row + 1) * shown.width));
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

    function sentence(shown, row) {
      if (row < 0) return "Point at a query, or at a cell of the map, to see where it looks; click to keep it.";
      const token = "“" + group().queries[row] + "” (" + (row + 1) + ")";
      if (state.column >= 0) {
        const key = "“" + group().keys[state.column] + "” (" + (state.column + 1) + ")";
        return token + " → " + key + ": " + said(shown.values[row * shown.width + state.column]);
      }
      const best = strongest(shown, row, 3).map(
        (column) => "“" + group().keys[column] + "” " + said(shown.values[row * shown.width + column]));
      return token + " looks " + (best.length > 0 ? "most at " + best.join(", ") : "nowhere");
    }

    function scaleOf(shown, values) {
      return state.scale === "one" ? 1 : largest(values);
    }

    // ---- the map ----

    function shortened(text) {
      context.font = LABEL_FONT;
      if (context.measureText(text).width <= LONGEST_LABEL) return text;
      const letters = Array.from(text);
      while (letters.length > 1 && context.measureText(letters.join("") + "…").width > LONGEST_LABEL) letters.pop();
      return letters.join("") + "…";
    }

    // Labels and the room they take, once a layer.
    function layOut() {
      const rows = group().queries.map(shortened);
      const columns = group().keys.map(shortened);
      const widest = (labels) => labels.reduce((most, label) => Math.max(most, context.measureText(label).width), 20);
      const above = widest(columns);
      place = {
        rows: rows,
        columns: columns,
        left: Math.ceil(widest(rows)) + 12,
        top: Math.ceil(above * Math.sin(ANGLE)) + 16,
        beyond: Math.ceil(above * Math.cos(ANGLE)) + 8,
      };
      if (state.cell === 0) {
        const room = (root.clientWidth || 900) - place.left - place.beyond;
        state.cell = firstCell(columns.length, rows.length, room);
      }
      size.value = state.cell;
    }

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
      if (!place) layOut();
      const shown = map();
      const cell = state.cell;
      sizer.style.width = place.left + shown.width * cell + place.beyond + "px";
      sizer.style.height = place.top + shown.height * cell + 4 + "px";
      const wide = Math.min(scroller.clientWidth, place.left + shown.width * cell + place.beyond);
      const high = Math.min(scroller.clientHeight, place.top + shown.height * cell + 4);
      const density = window.devicePixelRatio || 1;
      canvas.width = Math.max(1, Math.round(wide * density));
      canvas.height = Math.max(1, Math.round(high * density));
      canvas.style.width = wide + "px";
      canvas.style.height = high + "px";
      context.setTransform(density, 0, 0, density, 0, 0);
      context.clearRect(0, 0, wide, high);
      if (shown.width === 0 || shown.height === 0) return;
      const window_ = {
        x: place.left - scroller.scrollLeft,
        y: place.top - scroller.scrollTop,
        rows: visible(scroller.scrollTop, high - place.top, cell, shown.height),
        columns: visible(scroller.scrollLeft, wide - place.left, cell, shown.width),
        wide: wide,
        high: high,
      };
      context.save();
      context.beginPath();
      context.rect(place.left, place.top, wide - place.left, high - place.top);
      context.clip();
      drawCells(shown, window_, cell);
      drawChosen(shown, window_, cell);
      context.restore();
      drawLabels(window_, cell);
    }

    function drawCells(shown, at, cell) {
      const rows = at.rows;
      const columns = at.columns;
      if (rows[0] === rows[1] || columns[0] === columns[1]) return;
      const most = scaleOf(shown, shown.values);
      cells.width = columns[1] - columns[0];
      cells.height = rows[1] - rows[0];
      cellContext.putImageData(pixels(shown, rows, columns, most), 0, 0);
      context.imageSmoothingEnabled = false;
      context.drawImage(cells, at.x + columns[0] * cell, at.y + rows[0] * cell, cells.width * cell, cells.height * cell);
      context.strokeStyle = "rgba(128,128,128,0.25)";
      context.lineWidth = 1;
      if (cell >= 8) {
        context.beginPath();
        for (let column = columns[0]; column <= columns[1]; column++) {
          context.moveTo(at.x + column * cell + 0.5, at.y + rows[0] * cell);
          context.lineTo(at.x + column * cell + 0.5, at.y + rows[1] * cell);
        }
        for (let row = rows[0]; row <= rows[1]; row++) {
          context.moveTo(at.x + columns[0] * cell, at.y + row * cell + 0.5);
          context.lineTo(at.x + columns[1] * cell, at.y + row * cell + 0.5);
        }
        context.stroke();
      }
      if (cell < 32) return;
      context.font = "11px DejaVu Sans, Verdana, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      for (let row = rows[0]; row < rows[1]; row++) {
        for (let column = columns[0]; column < columns[1]; column++) {
          const value = shown.values[row * shown.width + column];
          if (!(value >= 0.005)) continue;
          context.fillStyle = inkUpon(colourOf(colours, value, most));
          context.fillText(value.toFixed(2), at.x + (column + 0.5) * cell, at.y + (row + 0.5) * cell);
        }
      }
    }

    function drawChosen(shown, at, cell) {
      const row = activeRow();
      context.strokeStyle = getComputedStyle(root).getPropertyValue("--accent") || "#b3261e";
      context.lineWidth = 2;
      if (row >= 0) context.strokeRect(at.x, at.y + row * cell, shown.width * cell, cell);
      if (state.column >= 0) context.strokeRect(at.x + state.column * cell, at.y, cell, shown.height * cell);
    }

    function drawLabels(at, cell) {
      const style = getComputedStyle(root);
      const accent = style.getPropertyValue("--accent") || "#b3261e";
      const row = activeRow();
      context.font = LABEL_FONT;
      context.textBaseline = "middle";
      context.save();
      context.beginPath();
      context.rect(0, place.top - 6, place.left, at.high - place.top + 6);
      context.clip();
      context.textAlign = "right";
      for (const index of labelled(at.rows, 13 / cell, row)) {
        context.fillStyle = index === row ? accent : style.color;
        context.fillText(place.rows[index], place.left - 6, at.y + (index + 0.5) * cell);
      }
      context.restore();
      context.save();
      context.beginPath();
      context.rect(place.left - 4, 0, at.wide - place.left + 4, place.top);
      context.clip();
      context.textAlign = "left";
      for (const index of labelled(at.columns, 15 / (cell * Math.sin(ANGLE)), state.column)) {
        context.save();
        context.translate(at.x + (index + 0.5) * cell, place.top - 6);
        context.rotate(-ANGLE);
        context.fillStyle = index === state.column ? accent : style.color;
        context.fillText(place.columns[index], 0, 0);
        context.restore();
      }
      context.restore();
    }

    // ---- what people do ----

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

    // Arrows choose, unless they move something else: a choice, the size, the window of a large map.
    function onKey(event) {
      if (/^(SELECT|INPUT|TEXTAREA)$/.test(event.target.tagName) ) return;
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

  // Every so many labels, and the chosen one instead of its neighbours.
  function labelled(range, least, chosen) {
    const every = Math.max(1, Math.ceil(least));
    const shown = [];
    for (let index = Math.ceil(range[0] / every) * every; index < range[1]; index += every) {
      if (chosen < 0 || index === chosen || Math.abs(index - chosen) >= every) shown.push(index);
    }
    if (chosen >= range[0] && chosen < range[1] && shown.indexOf(chosen) < 0) shown.push(chosen);
    return shown;
  }

  if (typeof document !== "undefined") {
    const keys = Array.from(document.querySelectorAll(".attention")).map(mount).filter((key) => key !== null);
    // A page with one view needs no click before its arrows work.
    if (keys.length === 1) {
      document.addEventListener("keydown", (event) => {
        if (event.target === document.body) keys[0](event);
      });
    }
  }
  if (typeof module === "object") {
    module.exports = { unpack, mean, pooled, ramp, colourOf, strongest, inputsOf, firstCell, visible, labelled };
  }
})();
