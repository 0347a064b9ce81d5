// Names, keyboard access and the language of a page, which the theme leaves out; "document$" emits at every page.
document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelector(".md-search__options")?.setAttribute("aria-label", "Search options");
  document.querySelectorAll(".md-code__nav").forEach((buttons, n) => {
    buttons.setAttribute("aria-label", `Code block ${n + 1}`);
  });
  for (const part of document.querySelectorAll(".md-typeset__scrollwrap")) part.tabIndex = 0;
  if (location.pathname.endsWith("/zh/")) document.querySelector("article").lang = "zh-Hans";
  for (const empty of document.querySelectorAll("th:empty")) empty.replaceWith(document.createElement("td"));
});
