/** The current view in the URL's fragment, for bookmarks and "back". */
import { useEffect, useState } from "preact/hooks";

export interface Route {
  readonly page: string;
  readonly params: URLSearchParams;
}

function read(): Route {
  const [page = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: page || "overview", params: new URLSearchParams(query) };
}

type Values = Readonly<Record<string, string | number | null | undefined>>;

export function link(page: string, values: Values = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  }
  const query = params.toString();
  return `#/${page}${query ? `?${query}` : ""}`;
}

export function go(page: string, values: Values = {}): void {
  location.hash = link(page, values);
}

/** Changes values of the URL without a new history entry. */
export function change(values: Values): void {
  const { page, params } = read();
  const address = link(page, { ...Object.fromEntries(params), ...values });
  history.replaceState(null, "", address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
