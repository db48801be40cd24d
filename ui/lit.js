// lit-html, by one name for the whole page.
export { html, nothing, render, svg } from '../third_party/web/lit-html/lit-html.js';
export { live } from '../third_party/web/lit-html/directives/live.js';
