// Text counted as the service counts it, in Unicode code points: an emoji is one, where JavaScript has two.

/** How many code points there are. */
export function length(text) {
  let n = 0;
  for (const _ of text) n += 1;
  return n;
}

/** The code points from `start` up to, not including, `end`. */
export function slice(text, start, end) {
  return Array.from(text).slice(start, end).join("");
}

/** Whether the spans [start, end) share a character. */
export function overlap(one, other) {
  return one[0] < other[1] && other[0] < one[1];
}

/** The spans of the words of `text`, by the rules of Unicode and of its language (Chinese has no spaces). */
export function words(text, language) {
  const found = [];
  let start = 0;
  for (const { segment, isWordLike } of segmenter(language).segment(text)) {
    const end = start + length(segment);
    if (isWordLike) found.push([start, end]);
    start = end;
  }
  return found;
}

function segmenter(language) {
  try {
    return new Intl.Segmenter(language || undefined, { granularity: "word" });
  } catch {
    return new Intl.Segmenter(undefined, { granularity: "word" }); // a model may name a language no one knows
  }
}

/** `text` cut at the spans, which are in order: [{text, span}], span null between them. */
export function pieces(text, spans) {
  const characters = Array.from(text);
  const found = [];
  let at = 0;
  for (const [start, end] of spans) {
    if (start < at || end <= start || end > characters.length) continue; // overlapping ones cannot be shown
    if (start > at) found.push({ text: characters.slice(at, start).join(""), span: null });
    found.push({ text: characters.slice(start, end).join(""), span: [start, end] });
    at = end;
  }
  if (at < characters.length) found.push({ text: characters.slice(at).join(""), span: null });
  return found;
}

/** Where `text` begins to differ from `other`, and where that ends: the span [start, end) of its difference. */
export function difference(text, other) {
  const own = text.split(/(\s+)/u);
  const theirs = other.split(/(\s+)/u);
  let first = 0;
  while (first < own.length && first < theirs.length && own[first] === theirs[first]) first += 1;
  let last = 0;
  const most = Math.min(own.length, theirs.length) - first;
  while (last < most && own[own.length - 1 - last] === theirs[theirs.length - 1 - last]) last += 1;
  const before = own.slice(0, first).join("");
  const middle = own.slice(first, own.length - last).join("");
  return [length(before), length(before) + length(middle)];
}

/** Languages that are written without spaces between words and sentences. */
export const WITHOUT_SPACES = new Set(["zh", "ja", "th", "lo", "km", "my", "bo", "yue"]);
