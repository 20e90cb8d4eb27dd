export function exportsOf(library: string): string[];
export function undefinedOf(libraries: readonly string[]): { readonly name: string; readonly version: string }[];
