// Keys: `/` searches, `?` helps, `g` and a letter goes to a page; `.` is a table's. Single letters can be switched off in the help.
import { go } from './route.js';

const kKey = 'pvrdma-letters-off';

// By letter: the page, and its name in the help.
export const pages = { r: ['home', 'readiness'], h: ['hosts', 'hosts'], v: ['vms', 'VMs'], n: ['networking', 'networking'], c: ['connections', 'connections'], t: ['topology', 'topology'],
  m: ['motions', 'motions'], p: ['captures', 'captures'], f: ['faults', 'faults'], e: ['events', 'events'], a: ['about', 'about'] };

export const letters_off = () => localStorage.getItem(kKey) === 'yes';
export const set_letters_off = (off) => localStorage.setItem(kKey, off ? 'yes' : 'no');

const types = (element) => element.matches('input:not([type=checkbox]), textarea, select');

export function listen(page, changed) {
  let after_g = false;
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && page.help) {
      page.help = false;
      changed();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || types(event.target) || document.querySelector('dialog') || letters_off()) return;
    const was_g = after_g;
    after_g = event.key === 'g';
    if (was_g && Object.hasOwn(pages, event.key)) go(pages[event.key][0]);
    else if (event.key === '/') {
      event.preventDefault();
      document.getElementById('search')?.focus();
    } else if (event.key === '?') {
      page.help = !page.help;
      changed();
    }
  });
}
