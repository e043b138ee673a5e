import type { DefaultTheme } from "vitepress";

export const sidebar: DefaultTheme.SidebarItem[] = [
  {
    text: "Start",
    items: [
      { text: "How it works", link: "/how-it-works" },
      { text: "Recipes", link: "/recipes" },
      { text: "Examples", link: "/examples/" },
    ],
  },
  {
    text: "Your stack",
    items: [
      { text: "Frameworks", link: "/frameworks" },
      { text: "Runtimes", link: "/runtimes" },
      { text: "Stores", link: "/stores" },
      { text: "A store of your own", link: "/custom-store" },
      { text: "Queue engines", link: "/engines" },
    ],
  },
  {
    text: "In production",
    items: [
      { text: "Reconciler", link: "/reconcile" },
      { text: "Command line", link: "/cli" },
      { text: "Logging", link: "/logging" },
      { text: "Testing", link: "/testing" },
    ],
  },
  {
    text: "Reference",
    items: [
      { text: "API", link: "/reference/" },
      { text: "Fields", link: "/fields" },
      { text: "Size", link: "/size" },
      { text: "Changelog", link: "/project/changelog" },
    ],
  },
];
