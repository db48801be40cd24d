// Reduces Clarity's style sheet to the classes of classes.txt: node reduce.mjs CLARITY.css classes.txt RESULT.css
//
// It removes rules first and then variables, because a variable counts as used while a rule that will go still names it.
// It keeps variables that own.css names.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PurgeCSS } from 'purgecss';

const [source, list, result] = process.argv.slice(2);
const words = readFileSync(list, 'utf8').replace(/#.*/g, ' ').split(/\s+/).filter(Boolean);
const own = readFileSync(join(dirname(list), '../../ui/own.css'), 'utf8');
const purge = async (css, options) =>
  (await new PurgeCSS().purge({ content: [{ raw: words.join(' '), extension: 'txt' }], css: [{ raw: css }],
                                defaultExtractor: (text) => text.split(/\s+/), ...options }))[0].css;

// A variable is used if a property uses it, or the value of a variable that is used.
function without_unused_variables(css) {
  const declarations = [...css.matchAll(/(--[\w-]+)\s*:([^;{}]*)/g)];
  const names = (text) => [...text.matchAll(/var\(\s*(--[\w-]+)/g)].map((found) => found[1]);
  const used = new Set(names(css.replace(/(--[\w-]+)\s*:[^;{}]*/g, '') + own));
  for (let before = -1; before !== used.size;) {
    before = used.size;
    for (const [, name, value] of declarations) if (used.has(name)) names(value).forEach((each) => used.add(each));
  }
  return css.replace(/(--[\w-]+)\s*:[^;{}]*;?/g, (text, name) => (used.has(name) ? text : ''));
}

let css = await purge(readFileSync(source, 'utf8').replace(/\/\*#.*?\*\//g, ''), { variables: false, keyframes: true, fontFace: true });
css = without_unused_variables(css);
for (let before = ''; before !== css;) [before, css] = [css, css.replace(/[^{};]+\{\s*\}/g, '')];
writeFileSync(result, `${css.trim()}\n`);
