// The licences of what the page contains, as About shows them.
import clarity from '../third_party/web/clarity.LICENSE.txt';
import lit from '../third_party/web/lit-html/LICENSE.txt';
import manifest from '../third_party/web/manifest.json';

const texts = { 'lit-html': lit, '@clr/ui': clarity };

export const licences = Object.entries(texts).map(([name, text]) => ({ name, text, ...manifest.packages[name] }));
