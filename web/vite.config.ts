/** The page of `yarn hone view` and `yarn report`: one script and one style, which src/insight/view puts into one HTML text. */
import { defineConfig } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    outDir: "../dist/web",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    reportCompressedSize: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: `${import.meta.dirname}/src/main.tsx`,
      output: { entryFileNames: "page.js", assetFileNames: "page.[ext]", inlineDynamicImports: true },
    },
  },
});
