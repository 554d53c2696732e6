import { html } from "./parts.js";
export const Released = ({ release }) => html`<p>${release.title}</p>`;
