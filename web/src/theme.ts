/** Colours: the system's, light, or dark; the choice is stored. */
import { useEffect, useState } from "preact/hooks";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

/** A page from a file may have no storage; the choice then lasts as long as the page. */
function remembered(): Theme {
  try {
    const kept = localStorage.getItem("hone-theme");
    return THEMES.find((one) => one === kept) ?? "auto";
  } catch {
    return "auto";
  }
}

export function useTheme(): { theme: Theme; drawn: string; next: () => void } {
  const [theme, setTheme] = useState(remembered);
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  document.documentElement.dataset.theme = theme === "auto" ? (dark ? "dark" : "light") : theme;
  const next = () => {
    const chosen = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] as Theme;
    setTheme(chosen);
    try {
      localStorage.setItem("hone-theme", chosen);
    } catch {
      // See `remembered`.
    }
  };
  return { theme, drawn: document.documentElement.dataset.theme, next };
}

export const THEME_HINT = "Colours: as the system, light, dark";
