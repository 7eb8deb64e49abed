// Before anything is drawn: the theme that was chosen here, and that there is a script.
const root = document.documentElement;
root.classList.add("scripted");
try {
  const chosen = localStorage.getItem("kshadow-theme");
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
} catch {
  // No storage, no choice.
}
