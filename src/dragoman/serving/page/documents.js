// Documents: dropped anywhere or chosen, sent, and given back translated in their own format.

import { icon, iconButton, make, named } from "./elements.js";
import { say } from "./messages.js";
import { address, credentials, errorOf } from "./service.js";

const megabytes = (n) => Math.round((10 * n) / 2 ** 20) / 10;

export class Documents {
  #formats = [];
  #most = Infinity;
  #waiting = [];
  #busy = false;

  /** `directions` says which model; `wantsKey()` asks for one; `shown()` brings the documents to the front. */
  constructor(directions, { wantsKey, shown }) {
    this.directions = directions;
    this.wantsKey = wantsKey;
    this.input = named("file");
    this.drop = named("drop");
    named("choose").addEventListener("click", () => this.input.click());
    this.input.addEventListener("change", () => {
      this.take(this.input.files);
      this.input.value = ""; // the same document again is a change, too
    });
    for (const type of ["dragenter", "dragover"]) {
      addEventListener(type, (event) => this.#over(event, shown));
    }
    addEventListener("dragleave", (event) => event.relatedTarget ?? this.drop.classList.remove("over"));
    addEventListener("drop", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.drop.classList.remove("over");
      this.take(event.dataTransfer.files);
    });
  }

  #over(event, shown) {
    if (!hasFiles(event)) return;
    event.preventDefault();
    this.drop.classList.add("over");
    shown();
  }

  /** Which formats, and how large. */
  accept(formats, most) {
    this.#formats = formats;
    this.#most = most;
    this.input.accept = formats.join(",");
    this.refresh();
  }

  /** In the language of the page. */
  refresh() {
    const formats = this.#formats.join(" ");
    named("formats").textContent = say("documents.formats", { formats, n: megabytes(this.#most) });
  }

  /** Documents, one after the other. */
  take(files) {
    for (const file of files) {
      const job = new Job(file, this);
      named("jobs").prepend(job.element);
      const ending = this.#formats.find((format) => file.name.toLowerCase().endsWith(format));
      if (!ending) job.fail(say("documents.unknown", { formats: this.#formats.join(" ") }));
      else if (file.size > this.#most) job.fail(say("documents.large", { n: megabytes(this.#most) }));
      else this.queue(job);
    }
  }

  queue(job) {
    this.#waiting.push(job);
    this.#next();
  }

  async #next() {
    if (this.#busy) return;
    this.#busy = true;
    while (this.#waiting.length) await this.#waiting.shift().run(this.directions);
    this.#busy = false;
  }

  forget(job) {
    this.#waiting = this.#waiting.filter((other) => other !== job);
  }
}

function hasFiles(event) {
  return [...(event.dataTransfer?.types ?? [])].includes("Files");
}

/** One document on its way. */
class Job {
  #request = null;
  #url = null;

  constructor(file, documents) {
    this.file = file;
    this.documents = documents;
    this.state = make("p", { className: "hint", role: "status", textContent: say("documents.waiting") });
    this.progress = make("progress", { max: 1, value: 0, aria: { label: file.name } });
    this.actions = make("span", { className: "actions" });
    const remove = iconButton("close", say("documents.remove", { name: file.name }), () => this.#remove());
    const name = make("p", { className: "name", textContent: file.name, dir: "auto" });
    const what = make("div", { className: "what" }, name, this.progress, this.state);
    this.element = make("li", {}, icon("document"), what, this.actions, remove);
  }

  /** Sends it and waits for the answer. What was sent is counted; how long the model takes nobody knows. */
  run(directions) {
    const form = new FormData();
    form.append("file", this.file);
    const { model, source, target } = directions.chosen();
    const fields = directions.detects ? { source: "auto", target } : { model, source, target };
    for (const [name, value] of Object.entries(fields)) if (value) form.append(name, value);
    this.actions.replaceChildren();
    this.progress.hidden = false;
    return new Promise((resolve) => {
      const request = new XMLHttpRequest(); // fetch does not tell how much was sent
      this.#request = request;
      request.open("POST", address("v1/documents"));
      for (const [name, value] of Object.entries(credentials())) request.setRequestHeader(name, value);
      request.responseType = "blob";
      request.upload.addEventListener("progress", ({ loaded, total }) => this.#sent(loaded / total));
      request.addEventListener("load", async () => resolve(await this.#loaded(request)));
      request.addEventListener("error", () => resolve(this.fail(say("error.unreachable"), true)));
      request.addEventListener("abort", resolve);
      request.send(form);
      this.#sent(0);
    });
  }

  #sent(share) {
    if (share < 1) this.progress.value = share;
    else this.progress.removeAttribute("value");
    this.#say(share < 1 ? say("documents.sending") : say("documents.translating"));
  }

  async #loaded(request) {
    if (request.status === 200) {
      this.#succeed(request.response, nameIn(request.getResponseHeader("Content-Disposition")) ?? this.file.name);
      return;
    }
    const error = errorOf(request.status, request.getResponseHeader("Retry-After"), await request.response.text());
    if (error.wantsKey) this.documents.wantsKey();
    const message = error.message ? say("error.said", { message: error.message }) : say("error.unreachable");
    this.fail(error.status === 429 ? say("error.busy") : message, true);
  }

  #succeed(blob, name) {
    this.progress.hidden = true;
    this.#url = URL.createObjectURL(blob);
    const save = make("a", { href: this.#url, download: name, className: "primary" }, icon("save"));
    save.append(say("documents.save"));
    this.actions.replaceChildren(save);
    this.element.classList.add("ready");
    this.#say(name);
    save.click(); // what was asked for comes by itself; the link is for a second time
  }

  /** Says why there is nothing, and offers to try again where that may help. */
  fail(message, again = false) {
    this.progress.hidden = true;
    this.element.classList.add("failed");
    this.#say(message);
    if (!again) return;
    const retry = make("button", { type: "button", className: "quiet strong", textContent: say("retry") });
    retry.addEventListener("click", () => {
      this.element.classList.remove("failed");
      this.documents.queue(this);
    });
    this.actions.replaceChildren(retry);
  }

  #say(text) {
    if (this.state.textContent !== text) this.state.textContent = text;
  }

  #remove() {
    this.documents.forget(this);
    this.#request?.abort();
    if (this.#url) URL.revokeObjectURL(this.#url);
    const next = this.element.nextElementSibling?.querySelector("button") ?? named("choose");
    this.element.remove();
    next.focus();
  }
}

/** The name of a file in a Content-Disposition header, RFC 6266. */
function nameIn(header) {
  const extended = /filename\*=(?:UTF-8|utf-8)''([^;]+)/u.exec(header ?? "");
  if (extended) return decodeURIComponent(extended[1]);
  return /filename="?([^";]+)"?/u.exec(header ?? "")?.[1] ?? null;
}
