import { say } from "./status.js";

// Requests to the server: the token, waiting for a busy server, and errors in words.
const KEY = "regard-token";
const MOST_TRIES = 6;
let asking = null;

// An answer that is not a success. `status` is 0 if the server was not reached.
export class Failure extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// Asks for JSON; with a body by POST.
export async function ask(path, body, signal) {
  const answer = await raw(path, body, signal);
  return answer.json();
}

// Asks for a file. Returns its bytes with their type.
export async function askFile(path, body, signal) {
  const answer = await raw(path, body, signal);
  return answer.blob();
}

async function raw(path, body, signal) {
  for (let tries = 1; ; tries++) {
    const answer = await send(path, body, signal);
    if (answer.ok) {
      say("");
      return answer;
    }
    const failure = await failureOf(answer);
    if (answer.status === 401) {
      await token(tries > 1 || window.sessionStorage.getItem(KEY) !== null);
    } else if ((answer.status === 429 || answer.status === 503) && tries < MOST_TRIES) {
      const seconds = Math.max(1, Math.min(30, Number(answer.headers.get("retry-after")) || 1));
      say("The server is busy (" + failure.message + "). Trying again in " + seconds + " s.", "warning");
      await pause(seconds * 1000, signal);
    } else {
      throw failure;
    }
  }
}

async function send(path, body, signal) {
  const headers = {};
  const known = window.sessionStorage.getItem(KEY);
  if (known !== null) headers.Authorization = "Bearer " + known;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  try {
    return await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server does not answer. Is regard serve still running?", 0, "gone");
  }
}

async function failureOf(answer) {
  let error = {};
  try {
    error = (await answer.json()).error || {};
  } catch {
    // The answer is not JSON: its status has to do.
  }
  return new Failure(error.message || "the server answered " + answer.status, answer.status, error.code);
}

// Asks the person for the token, once for all requests that need it.
function token(isWrong) {
  asking = asking || new Promise((resolve) => {
    const dialog = document.getElementById("token");
    const field = document.getElementById("token-field");
    const form = dialog.querySelector("form");
    document.getElementById("token-problem").textContent = isWrong ? "The server does not know this token." : "";
    field.value = "";
    form.onsubmit = (event) => {
      event.preventDefault();
      window.sessionStorage.setItem(KEY, field.value.trim());
      dialog.close();
      asking = null;
      resolve();
    };
    // Without a token there is nothing to see, so Escape does not close the question.
    dialog.oncancel = (event) => event.preventDefault();
    dialog.showModal();
    field.focus();
  });
  return asking;
}

function pause(time, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, time);
    if (!signal) return;
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("aborted", "AbortError"));
    });
  });
}

// Calls a function when the server answers again.
export async function whenBack(call) {
  for (;;) {
    await pause(1500);
    try {
      if ((await fetch("/livez")).ok) return call();
    } catch {
      // Still gone.
    }
  }
}
