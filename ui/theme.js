// The theme: the system's, until the button chooses one.
const kKey = 'pvrdma-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

const current = () => localStorage.getItem(kKey) ?? (dark.matches ? 'dark' : 'light');

export function apply_theme() {
  const apply = () => document.body.setAttribute('cds-theme', current());
  dark.addEventListener('change', apply);
  apply();
}

export function change_theme() {
  const next = current() === 'dark' ? 'light' : 'dark';
  localStorage.setItem(kKey, next);
  document.body.setAttribute('cds-theme', next);
}
