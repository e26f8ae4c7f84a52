// Loaded before the page is drawn, so that a chosen theme does not flash.
"use strict";
try {
  const theme = localStorage.getItem("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch { /* storage is switched off: the system's theme counts */ }
