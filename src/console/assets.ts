/// <reference path="./raw.d.ts" />
import icon from "./browser/icon.svg?raw";
import script from "./browser/script.js?raw";
import style from "./browser/style.css?raw";

// The build puts the text of these files into the package, because runtimes without a file system serve them, too.

/** The files that all pages load, with their content types. */
export const assets: Readonly<Record<string, readonly [type: string, text: string]>> = {
  "style.css": ["text/css; charset=utf-8", style],
  "script.js": ["text/javascript; charset=utf-8", script],
  "icon.svg": ["image/svg+xml", icon],
};
