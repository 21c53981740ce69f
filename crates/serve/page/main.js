import { ask, whenBack } from "./api.js";
import { element, fill } from "./elements.js";
import { shareMenu } from "./share.js";
import { read, write } from "./state.js";
import { say, sayFailure } from "./status.js";
import * as compare from "./compare.js";
import * as learn from "./learn.js";
import * as look from "./look.js";
import * as question from "./question.js";
import * as watch from "./watch.js";

// The frame of the page: which models there are, which view is open, and what to do when the server is gone.
const VIEWS = { look, question, compare, watch, learn };
const main = document.getElementById("main");
const models = document.getElementById("model");
const app = { info: null, model, write, say, fail, reopen: open };
let current = null;

// The model that the address names, or the first.
function model(name) {
  const all = app.info.models;
  return all.find((one) => one.name === (name || read().model)) || all[0] || null;
}

function isPossible(name) {
  if (name === "learn") return true;
  if (name === "watch") return Boolean(app.info.runs);
  if (name === "look") return app.info.models.length > 0 || !app.info.runs;
  return app.info.models.length > 0;
}

function open() {
  if (current && current.close) current.close();
  const state = read();
  const possible = Object.keys(VIEWS).filter(isPossible);
  const name = possible.includes(state.view) ? state.view : possible[0];
  models.parentNode.hidden = app.info.models.length === 0 || !["look", "question"].includes(name);
  if (model()) models.value = model().name;
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = VIEWS[name].title + " · Regard";
  main.textContent = "";
  main.className = name;
  say("");
  current = VIEWS[name].open(main, app, state);
  share.show(current.exports || null);
}

// Says a failure; if the server is gone, goes on when it is back.
function fail(error) {
  if (!sayFailure(error) || error.status !== 0) return;
  whenBack(() => {
    say("The server is back.", "good");
    open();
  });
}

function links() {
  const nav = document.getElementById("views");
  nav.textContent = "";
  for (const name of Object.keys(VIEWS).filter(isPossible)) {
    const link = nav.appendChild(element("a", "", VIEWS[name].title));
    link.dataset.view = name;
    link.href = "#" + name;
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      // The views of a model share model and input.
      const { model, input } = read();
      goTo({ view: name, model, input });
    });
  }
}

// Opens a view with a state of its own.
function goTo(state) {
  const empty = Object.fromEntries(Object.keys(read()).map((key) => [key, undefined]));
  write({ ...empty, ...state });
  open();
  main.focus({ preventScroll: true });
}
app.goTo = goTo;

const share = shareMenu(document.getElementById("share"), app);
models.addEventListener("change", () => goTo({ view: read().view, model: models.value }));
window.addEventListener("popstate", open);

async function start() {
  try {
    app.info = await ask("/info");
  } catch (error) {
    say(error.message, "problem");
    if (error.status === 0) whenBack(start);
    return;
  }
  fill(models, app.info.models.map((one) => [one.name, one.name + " (" + one.task + ")"]));
  links();
  open();
}
// regard train --watch prints the address of its run.
const run = new URLSearchParams(window.location.search).get("run");
if (run !== null) window.history.replaceState(null, "", "/#watch?run=" + encodeURIComponent(run));
start();
