// Runs before the page is drawn, so that a chosen theme does not flash.
(() => {
  let theme = "system";
  try { theme = localStorage.getItem("thresher-theme") || "system"; } catch { /* storage may be off */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  document.documentElement.classList.add("scripts");
})();
