import theme from "vitepress/theme";
import "@shikijs/twoslash/style-rich.css";
import "./style.css";

export default theme;
