try {
  const theme = localStorage.getItem("sojourn-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {}
