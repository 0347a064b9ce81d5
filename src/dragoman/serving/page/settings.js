// What this browser keeps, and nobody else has: settings and history for good, the key and the draft for a tab.

const PREFIX = "dragoman.";

/** Storage that never fails: a browser that keeps nothing, or has no room, gives and takes nothing. */
class Kept {
  #storage;

  constructor(find) {
    try {
      this.#storage = find();
    } catch {
      this.#storage = null; // forbidden by the browser's settings
    }
  }

  get(name, otherwise = null) {
    try {
      const value = this.#storage?.getItem(PREFIX + name);
      return value === null || value === undefined ? otherwise : value;
    } catch {
      return otherwise;
    }
  }

  /** Whether there was room. */
  set(name, value) {
    try {
      this.#storage?.setItem(PREFIX + name, value);
      return Boolean(this.#storage);
    } catch {
      return false;
    }
  }

  remove(name) {
    try {
      this.#storage?.removeItem(PREFIX + name);
    } catch {
      // nothing is kept, as was asked
    }
  }
}

/** Stays on this device. */
export const device = new Kept(() => localStorage);

/** Ends with the tab. */
export const tab = new Kept(() => sessionStorage);
