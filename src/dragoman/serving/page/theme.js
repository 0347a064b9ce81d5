// Runs before the page is drawn, so that a chosen theme does not flash: what is kept wins over the system's.
{
  let theme = null;
  try {
    theme = localStorage.getItem("dragoman.theme");
  } catch {
    // a browser that keeps nothing follows the system
  }
  if (theme !== "light" && theme !== "dark") {
    theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  document.documentElement.dataset.theme = theme;
}
