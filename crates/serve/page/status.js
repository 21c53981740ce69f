// The line below the header that says what the page waits for and what went wrong.
export function say(text, kind) {
  const line = document.getElementById("status");
  if (line.textContent !== text) line.textContent = text;
  line.className = text ? kind || "" : "";
}

// Says why something failed; a request that was given up on purpose says nothing. Returns whether it was a failure.
export function sayFailure(error) {
  if (error.name === "AbortError") return false;
  say(error.message, "problem");
  if (error.status === undefined) console.error(error);
  return true;
}
