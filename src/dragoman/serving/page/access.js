// The key of a service that asks for one: kept for this tab only, sent with every request.

import { named, open } from "./elements.js";
import { say } from "./messages.js";
import { tab } from "./settings.js";

export class Access {
  #then = null;

  constructor() {
    this.dialog = named("key");
    this.value = named("key-value");
    this.button = named("open-key");
    this.button.addEventListener("click", () => this.ask());
    named("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#use();
    });
  }

  /** Whether the service asks for keys. */
  set needed(needed) {
    this.button.hidden = !needed;
  }

  /** Whether there is a key to send. */
  get has() {
    return tab.get("key") !== null;
  }

  /** Asks for a key; `refused` when the one there was not taken. `then` is done once there is another. */
  ask({ refused = false, then = this.#then } = {}) {
    this.#then = then;
    this.button.hidden = false;
    named("key-error").textContent = refused ? say("key.refused") : "";
    this.value.value = "";
    open(this.dialog);
    this.value.focus();
  }

  #use() {
    const key = this.value.value.trim();
    if (!key) {
      named("key-error").textContent = say("key.empty");
      return;
    }
    if (!/^[\x21-\x7e]+$/u.test(key)) {
      named("key-error").textContent = say("key.characters");
      return;
    }
    tab.set("key", key);
    this.dialog.close();
    this.#then?.();
  }
}
