// Login: the token of [api] token_file or read_token_file. It stays in this tab.
import { html } from '../lit.js';
import { token } from '../api.js';
import { box } from '../parts.js';

async function log_in(event, store, changed) {
  event.preventDefault();
  token.set(new FormData(event.target).get('token').trim());
  await store.refresh();
  changed();
}

export const login = (store, changed) => html`<form class="login-form" @submit=${(event) => log_in(event, store, changed)}>
  <h1 class="page-title">Log in to pvrdmad</h1>
  <div role="alert">${box(token.get() ? 'danger' : 'info', store.login)}</div>
  <label class="clr-control-label" for="token">Token</label>
  <input class="clr-input" id="token" name="token" type="password" autocomplete="current-password" required maxlength="256">
  <span class="clr-subtext">The first line of the file that [api] token_file names; the one of read_token_file permits reading only.</span>
  <button class="btn btn-primary">Log In</button></form>`;
