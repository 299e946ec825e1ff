// Colours that charts take from the style sheet, which has a dark and a light set of them. Okabe and
// Ito's palette: its colours differ for every common kind of colour blindness.
import { useEffect, useState } from "preact/hooks";

export type Colors = (name: string) => string;

export function readColors(): Colors {
  const style = getComputedStyle(document.documentElement);
  const known = new Map<string, string>();
  return (name) => {
    let color = known.get(name);
    if (color === undefined) known.set(name, (color = style.getPropertyValue(`--${name}`).trim()));
    return color;
  };
}

// A number that changes with the system's scheme, for effects that draw.
export function useScheme(): number {
  const [scheme, setScheme] = useState(0);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setScheme((count) => count + 1);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return scheme;
}
