import { join } from "node:path";
import { Converter } from "typedoc";
import { subpaths } from "../../subpaths.config.ts";

const root = join(import.meta.dirname, "../..");

/** Names a module as users import it, `stayhook/sqlite`, and leaves out where in src a member stands. */
function nameModules(app) {
  const names = new Map(Object.entries(subpaths).map(([name, path]) => [path, name]));
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const module of project.children ?? []) {
      const file = (module.sources?.[0]?.fullFileName ?? "").slice(root.length + 1);
      const name = names.get(file) ?? module.name;
      module.name = name === "index" ? "stayhook" : `stayhook/${name}`;
    }
    for (const reflection of Object.values(project.reflections)) delete reflection.sources;
  });
}

/** @type {Partial<import("typedoc").TypeDocOptions>} */
export default {
  plugin: ["typedoc-plugin-markdown", "typedoc-vitepress-theme", nameModules],
  entryPoints: Object.values(subpaths).map((path) => join(root, path)),
  // The source alone: the type tests expect their errors where the package's own compiler reports them.
  tsconfig: join(root, "docs/.vitepress/tsconfig.json"),
  out: join(root, "docs/reference"),
  docsRoot: join(root, "docs"),
  readme: "none",
  name: "API reference",
  excludePrivate: true,
  excludeInternal: true,
  hidePageHeader: true,
  hideBreadcrumbs: true,
  disableSources: false,
  sourceLinkTemplate: "",
  // Types that no export names stay out; a link from a comment to another subpath stays plain text.
  validation: { notExported: false, invalidLink: false },
};
