// What the page shows at a time: text, documents or classes, by the address, so that the browser's Back works.

import { named } from "./elements.js";
import { say } from "./messages.js";

/** Where the skip link leads in each view. */
const BEGINNINGS = { text: "#source", documents: "#choose", classify: "#classify-source" };

const links = () => [...document.querySelectorAll("[data-view]")];

/** Offers the views that there are models for, and shows one. */
export function offerViews(there) {
  for (const link of links()) link.hidden = !there[link.dataset.view];
  showView();
}

/** Shows the view that the address names; where it names none, the one that is shown, or the first. */
export function showView() {
  const offered = links().filter((link) => !link.hidden);
  if (offered.length === 0) return;
  const wanted = location.hash.slice(1);
  const link =
    offered.find(({ dataset }) => dataset.view === wanted) ??
    offered.find((other) => other.getAttribute("aria-current") === "page") ??
    offered[0];
  for (const other of links()) other.removeAttribute("aria-current");
  link.setAttribute("aria-current", "page");
  const { view } = link.dataset;
  named("translator").hidden = view === "classify";
  for (const name of Object.keys(BEGINNINGS)) named(`${name}-view`).hidden = name !== view;
  named("facts").hidden = view === "classify"; // they are those of a translator
  named("skip").href = BEGINNINGS[view];
  named("heading").dataset.message = `view.${view}`;
  named("heading").textContent = say(`view.${view}`);
}
