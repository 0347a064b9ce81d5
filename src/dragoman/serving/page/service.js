// The service that this page belongs to: its routes, its errors, its streams.

import { tab } from "./settings.js";

/** What went wrong. `status` is HTTP's, 0 where nobody answered; `wait` the seconds after which to ask again. */
export class ServiceError extends Error {
  constructor(message, status, wait = null) {
    super(message);
    this.status = status;
    this.wait = wait;
  }

  /** Whether a key is missing or wrong. */
  get wantsKey() {
    return this.status === 401 || this.status === 403;
  }
}

/** The address of one of the service's routes, wherever the page itself is. */
export function address(route) {
  return new URL(route, document.baseURI).href;
}

/** The headers that say who asks. */
export function credentials() {
  const key = tab.get("key");
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** The error that an answer with this status, `Retry-After` and body stands for. */
export function errorOf(status, retryAfter, body) {
  let message = "";
  try {
    message = String(JSON.parse(body).error ?? "");
  } catch {
    // a proxy in between answers in its own words, which are of no use here
  }
  const seconds = Number.parseInt(retryAfter ?? "", 10);
  return new ServiceError(message, status, Number.isFinite(seconds) ? Math.max(seconds, 1) : null);
}

async function ask(route, { request = null, signal = null } = {}) {
  let response;
  try {
    response = await fetch(address(route), {
      method: request === null ? "GET" : "POST",
      headers: { ...(request === null ? {} : { "Content-Type": "application/json" }), ...credentials() },
      body: request === null ? undefined : JSON.stringify(request),
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError("", 0);
  }
  if (!response.ok) {
    throw errorOf(response.status, response.headers.get("Retry-After"), await response.text());
  }
  return response;
}

async function answer(route, options) {
  return (await ask(route, options)).json();
}

/** What is served: models, limits, formats, and whether a key is needed. */
export function served(signal) {
  return answer("v1/models", { signal });
}

/** A whole translation. */
export function translate(request, signal) {
  return answer("v1/translate", { request, signal });
}

/** The class of a text. */
export function classify(request, signal) {
  return answer("v1/classify", { request, signal });
}

/** The languages that a text may be in, the likeliest first. */
export async function detect(text, signal) {
  return (await answer("v1/detect", { request: { text }, signal })).languages;
}

/** A translation as it appears: {event, data}, one after the other. ServiceError: the service sent an error. */
export async function* translateAsItAppears(request, signal) {
  const response = await ask("v1/translate", { request: { ...request, stream: true }, signal });
  let ended = false;
  try {
    for await (const { event, data } of events(response.body)) {
      if (event === "error") throw new ServiceError(data.error, data.status ?? 500);
      ended ||= event === "done";
      yield { event, data };
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ServiceError) throw error;
    throw new ServiceError("", 0); // the connection broke
  }
  if (!ended) throw new ServiceError("", 0);
}

/** The events of a text/event-stream, https://html.spec.whatwg.org/#event-stream-interpretation, data as JSON. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text = (text + value).replaceAll("\r\n", "\n");
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const found = eventOf(block);
        if (found) yield found;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function eventOf(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}
