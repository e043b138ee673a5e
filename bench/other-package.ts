// Loaded before a child's own file: imports of `stayhook` then get the build in the folder BENCH_PACKAGE.
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// Node resolves a package's own name from the package.json above the importing file.
const parentURL = pathToFileURL(join(process.env.BENCH_PACKAGE!, "package.json")).href;
registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier, /^stayhook(\/|$)/.test(specifier) ? { ...context, parentURL } : context),
});
