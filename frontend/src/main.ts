/** The page begins here: styles, language, theme, then the app. */
import { mount } from "svelte";
import "./styles/tokens.css";
import "./styles/ground.css";
import "./styles/controls.css";
import "./styles/layout.css";
import App from "./App.svelte";
import { language, setLanguage } from "./i18n/language.svelte";
import { applyTheme } from "./state/theme.svelte";

applyTheme();
setLanguage(language());
mount(App, { target: document.getElementById("app")! });
