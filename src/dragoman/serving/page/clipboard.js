// Copying the translation.

import { named } from "./elements.js";
import { say } from "./messages.js";

/** Milliseconds that the button says that it has copied. */
const THANKS = 1600;

/** Puts the text on the clipboard, and says so on the button. */
export async function copied(text) {
  if (!text.trim()) return;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyByHand(text); // the clipboard is only there for localhost and https
  }
  show("done", "copied");
  setTimeout(() => show("copy", "copy"), THANKS);
}

function show(icon, message) {
  const button = named("copy");
  button.querySelector("use").setAttribute("href", `#icon-${icon}`);
  button.querySelector("span").textContent = say(message);
}

function copyByHand(text) {
  const place = Object.assign(document.createElement("textarea"), { value: text, className: "unseen" });
  document.body.append(place);
  place.select();
  document.execCommand("copy");
  place.remove();
  named("copy").focus();
}
