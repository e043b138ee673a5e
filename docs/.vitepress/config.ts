import { transformerTwoslash } from "@shikijs/twoslash";
import type { Plugin } from "vite";
import { defineConfig } from "vitepress";
import { writeSite } from "../../tools/llms.ts";
import { exampleLinks } from "./example-links.ts";
import { sidebar } from "./sidebar.ts";
import { twoslashContext, twoslashOptions } from "./twoslash.ts";

/** The tools are installed here and not beside the pages, so Vite does not find Vue. Node finds it when it runs the pages. */
const vueForNode: Plugin = {
  name: "vue-for-node",
  config: (_, { isSsrBuild }) =>
    isSsrBuild ? { build: { rollupOptions: { external: ["vue", "vue/server-renderer"] } } } : undefined,
};

export default defineConfig({
  title: "stayhook",
  description: "Webhooks of a short-stay rental platform, handled without losing one.",
  lang: "en-US",
  cleanUrls: true,
  lastUpdated: false,
  srcExclude: ["reference/README.md"],
  buildEnd: ({ outDir }) => writeSite(outDir),
  markdown: {
    config(md) {
      md.use(exampleLinks);
      md.use(twoslashContext);
    },
    codeTransformers: [transformerTwoslash(twoslashOptions)],
  },
  themeConfig: {
    nav: [
      { text: "Quick start", link: "/quick-start" },
      { text: "Guides", link: "/guides/block-nights" },
      { text: "API reference", link: "/reference/" },
    ],
    sidebar,
    outline: [2, 3],
    // Search runs in the browser on an index that the build makes, so it works offline.
    search: { provider: "local" },
  },
  vite: {
    plugins: [vueForNode],
  },
});
