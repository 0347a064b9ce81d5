// The elements of the page: found by their name, made from their parts.

/** The element with this id, which index.html has. */
export function named(id) {
  return document.getElementById(id);
}

/** A new element. Properties are set as they are; `data`, `aria` and `role` become attributes. */
export function make(tag, { data = {}, aria = {}, role = null, ...properties } = {}, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  Object.assign(element.dataset, data);
  for (const [name, value] of Object.entries(aria)) element.setAttribute(`aria-${name}`, value);
  if (role) element.setAttribute("role", role);
  element.append(...children);
  return element;
}

/** A new element of a picture: SVG has names and attributes of its own. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The icon of this name in index.html. */
export function icon(name) {
  return draw("svg", { "aria-hidden": "true" }, draw("use", { href: `#icon-${name}` }));
}

/** A button that is an icon, and says what it is for. */
export function iconButton(name, label, pressed) {
  const button = make("button", { type: "button", className: "icon", title: label, aria: { label } }, icon(name));
  button.addEventListener("click", pressed);
  return button;
}

/** Puts the options into a menu, [{value, text}], and keeps what was chosen where it is still there. */
export function fill(menu, options, chosen = menu.value) {
  menu.replaceChildren(...options.map(({ value, text }) => make("option", { value, textContent: text })));
  const values = options.map(({ value }) => value);
  menu.value = values.includes(chosen) ? chosen : (values[0] ?? "");
}

/** Opens a dialog, whose close button and backdrop close it; the focus returns to where it was. */
export function open(dialog) {
  if (dialog.open) return;
  if (!dialog.dataset.ready) {
    dialog.dataset.ready = "yes";
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
    });
  }
  dialog.showModal();
}
