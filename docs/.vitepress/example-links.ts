import type { MarkdownRenderer } from "vitepress";

/**
 * Pages link to files outside docs/, so that the links work in a checkout and in `node_modules`. On the site
 * an example has a page of its own, and the other files are not there.
 */
export function exampleLinks(md: MarkdownRenderer): void {
  md.core.ruler.push("example-links", ({ tokens, env }) => {
    const isIndex = env?.relativePath === "examples/index.md";
    for (const { children } of tokens) {
      for (const token of children ?? []) {
        const href = token.attrGet("href");
        if (token.type !== "link_open" || href === null) continue;
        token.attrSet("href", sitePathOf(isIndex && /^[\w-]/.test(href) ? `../examples/${href}` : href));
      }
    }
  });
}

function sitePathOf(href: string): string {
  const example = /^(?:\.\.\/)*examples(?:\/([\w.-]+))?/.exec(href);
  if (example) return example[1] === undefined ? "/examples/" : `/examples/${pageOf(example[1])}`;
  const page = /^(?:\.\.\/)*docs\/([\w/-]+)\.md(#.*)?$/.exec(href);
  if (page) return `/${page[1]}${page[2] ?? ""}`;
  const root = /^(?:\.\.\/)*(README|CHANGELOG|CONTRIBUTING|SECURITY|ARCHITECTURE)\.md/.exec(href);
  return root ? `/project/${(root[1] as string).toLowerCase()}` : href;
}

/** `express.ts` and `engines/bullmq.ts` are on the pages `express` and `engines`. */
export const pageOf = (entry: string): string => (entry === "README.md" ? "" : entry.replace(/\.ts$/, ""));
