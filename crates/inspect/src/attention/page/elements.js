export { choice, element, fill };

// Makes an element. Texts from the data are inserted as text, never as markup.
function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Adds a list to choose from, with its label.
function choice(holder, name) {
  const label = holder.appendChild(element("label", "", name));
  return label.appendChild(document.createElement("select"));
}

// Replaces the options of a list; each is `[value, text]`.
function fill(select, options, chosen) {
  select.textContent = "";
  for (const [value, text] of options) {
    const option = select.appendChild(element("option", "", text));
    option.value = value;
    if (value === chosen) option.selected = true;
  }
}
