"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const number = (n) => n.toLocaleString("en");
const chosen = new Map(data.kinds.map((kind) => [kind.name, { drops: kind.drops, step: kind.threshold?.step_now ?? 0 }]));

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Whether a pair of this grade is dropped at this step: grades count steps from 1, 0 is never dropped. */
const exceeds = (threshold, grade, step) =>
  grade > 0 && (threshold.is_upper ? grade <= step : grade > step);

const value = (threshold, step) => +(threshold.low + step * threshold.step).toFixed(6);

/** How many pairs fulfil a condition on their kinds and grades. */
const count = (fulfils) => data.combinations.reduce((sum, [kinds, grades, n]) => sum + (fulfils(kinds, grades) ? n : 0), 0);

function has(kind, kinds, grades) {
  return kind.threshold
    ? exceeds(kind.threshold, grades[kind.name] ?? 0, chosen.get(kind.name).step)
    : kinds.includes(kind.name);
}

function command() {
  const words = [data.command];
  for (const kind of data.kinds) {
    const { drops, step } = chosen.get(kind.name);
    const threshold = kind.threshold;
    if (threshold && value(threshold, step) !== threshold.usual) {
      words.push(`--threshold ${kind.name}=${value(threshold, step)}`);
    }
    if (drops !== kind.usually_dropped) words.push(`${drops ? "--drop" : "--keep"} ${kind.name}`);
  }
  return `${words.join(" ")} --write-clean clean`;
}

function examples(title, some) {
  const rows = some.map((one) => element("div", {},
    element("dt", {}, `${data.unit} ${number(one.line)}`, one.grade ? `: ${+one.value.toFixed(2)}` : `: ${one.detail}`),
    element("dd", {}, ...one.texts.map((text) => element("p", { dir: "auto" }, text || "(empty)")))));
  return [element("h3", {}, `${title} (${rows.length})`), element("dl", {}, ...rows)];
}

function histogram(kind) {
  const counts = Array(kind.threshold.n_steps + 1).fill(0);
  for (const [, grades, n] of data.combinations) counts[grades[kind.name] ?? 0] += n;
  const highest = Math.log1p(Math.max(1, ...counts.slice(1)));
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", `0 0 ${counts.length - 1} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const bars = counts.slice(1).map((n, i) => {
    const bar = document.createElementNS(space, "rect");
    const height = (100 * Math.log1p(n)) / highest;
    for (const [name, at] of [["x", i + 0.1], ["width", 0.8], ["y", 100 - height], ["height", height]]) bar.setAttribute(name, at);
    svg.append(bar);
    return bar;
  });
  return { svg, bars };
}

/** The part of the page for one kind; returns what brings it up to date. */
function filter(kind) {
  const state = chosen.get(kind.name);
  const box = element("input", { type: "checkbox", checked: state.drops, id: `drop-${kind.name}` });
  const found = element("span");
  const article = element("article", { className: "filter", id: kind.name },
    element("h2", {}, `${kind.name}: ${kind.title}`),
    element("label", { htmlFor: box.id }, box, " drop ", found),
    element("p", {}, `${kind.severity}; ${kind.remedy}`));
  box.addEventListener("change", () => { state.drops = box.checked; update(); });
  let refresh = () => {};
  if (kind.threshold) {
    const threshold = kind.threshold;
    const slider = element("input", { type: "range", min: 0, max: threshold.n_steps, step: 1, value: state.step, id: `threshold-${kind.name}` });
    const said = element("span");
    const near = element("div");
    const { svg, bars } = histogram(kind);
    slider.addEventListener("input", () => { state.step = +slider.value; update(); });
    article.append(element("label", { htmlFor: slider.id }, `${threshold.what}: `, said), svg, slider, near);
    refresh = () => {
      const limit = value(threshold, state.step);
      const rule = `${threshold.is_upper ? "below" : "from"} ${limit}`;
      said.textContent = rule;
      slider.setAttribute("aria-valuetext", rule);
      svg.setAttribute("aria-label", `${kind.name}: pairs by ${threshold.what}, logarithmic; ${number(count((k, g) => has(kind, k, g)))} ${rule}`);
      bars.forEach((bar, i) => bar.setAttribute("class", exceeds(threshold, i + 1, state.step) ? "dropped" : ""));
      const sorted = [...kind.samples].sort((a, b) => Math.abs(a.value - limit) - Math.abs(b.value - limit));
      const split = (is_dropped) => sorted.filter((one) => exceeds(threshold, one.grade, state.step) === is_dropped).slice(0, 4);
      near.replaceChildren(...examples("Faults nearest to the threshold", split(true)), ...examples("Nearest pairs without fault", split(false)));
    };
  } else if (kind.samples.length) {
    const details = element("details", {}, element("summary", {}, "Examples"));
    details.append(...examples("Found", kind.samples));
    article.append(details);
  }
  document.getElementById("filters").append(article);
  return () => {
    found.textContent = number(count((kinds, grades) => has(kind, kinds, grades)));
    article.classList.toggle("drops", state.drops);
    refresh();
  };
}

const updates = data.kinds.map(filter);

function update() {
  updates.forEach((refresh) => refresh());
  const n = count((kinds, grades) => data.kinds.some((kind) => chosen.get(kind.name).drops && has(kind, kinds, grades)));
  document.getElementById("total").textContent =
    `${number(n)} of ${number(data.n)} ${data.unit}s dropped (${((100 * n) / data.n).toFixed(1)} %), ${number(data.n - n)} kept`;
  document.getElementById("command").textContent = command();
  document.getElementById("copied").textContent = "";
}

document.getElementById("copy").addEventListener("click", async () => {
  const shown = document.getElementById("command");
  let is_copied = false;
  try {
    await navigator.clipboard.writeText(shown.textContent);
    is_copied = true;
  } catch { // no rights, or a page from a file: select it instead
    getSelection().selectAllChildren(shown);
  }
  document.getElementById("copied").textContent = is_copied ? "Copied." : "Selected: copy it with the keyboard.";
});

update();
