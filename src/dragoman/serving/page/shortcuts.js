// Keys: what can be clicked can be pressed.

import { make, named, open } from "./elements.js";
import { say } from "./messages.js";

/** A Mac's Option key types characters, as AltGr does: there, shortcuts wait until the field is left. */
const APPLE = /Mac|iPhone|iPad/u.test(navigator.platform);

/** The keys with Alt, by their place on the keyboard so that every layout has them, and what is said of each. */
const WITH_ALT = {
  KeyE: "shortcut.source",
  KeyO: "shortcut.output",
  KeyS: "shortcut.swap",
  KeyC: "shortcut.copy",
  KeyK: "shortcut.confidence",
  KeyH: "shortcut.history",
  KeyT: "shortcut.theme",
};

/** `actions` has a function for each name after "shortcut.", and `translate`. */
export function listen(actions) {
  addEventListener("keydown", (event) => {
    const action = actionOf(event);
    if (!action || (document.querySelector("dialog[open]") && action !== "translate")) return;
    event.preventDefault();
    if (action === "help") openShortcuts();
    else actions[action]?.();
  });
}

function actionOf(event) {
  const { target, key, code } = event;
  const writing = target instanceof Element && target.matches("textarea, input");
  if (event.isComposing) return null;
  if (key === "Enter" && (event.ctrlKey || event.metaKey)) return "translate";
  if (event.ctrlKey || event.metaKey || event.getModifierState("AltGraph")) return null;
  if (event.altKey) {
    if (event.shiftKey || (APPLE && writing)) return null;
    return WITH_ALT[code]?.replace("shortcut.", "") ?? null;
  }
  return key === "?" && !writing ? "help" : null;
}

/** The list of all shortcuts. */
export function openShortcuts() {
  const alt = APPLE ? "⌥" : "Alt";
  const rows = [
    [[APPLE ? "⌘" : say("key.ctrl"), "Enter"], "shortcut.translate"],
    ...Object.entries(WITH_ALT).map(([code, message]) => [[alt, code.replace("Key", "")], message]),
    [["←", "→"], "shortcut.words"],
    [["Enter"], "shortcut.alternatives"],
    [[say("key.shift"), "Enter"], "shortcut.sentence"],
    [["Esc"], "shortcut.close"],
    [["?"], "shortcut.help"],
  ];
  const keys = (names) => names.flatMap((name) => [make("kbd", { textContent: name }), " "]);
  named("shortcuts-list").replaceChildren(
    ...rows.map(([names, message]) =>
      make("div", {}, make("dt", {}, ...keys(names)), make("dd", { textContent: say(message) })),
    ),
  );
  named("shortcuts-mac").hidden = !APPLE;
  open(named("shortcuts"));
}
