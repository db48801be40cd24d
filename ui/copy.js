// Copy buttons. A browser keeps the clipboard from a page without TLS of another machine, and people may forbid it: the button then
// shows the text, selected.
import { html } from './lit.js';

const kRefused = 'The browser keeps the clipboard from this page: press Ctrl+C.';

// `text` returns what is copied. The field hides itself when the focus leaves it.
export const copy_button = (text) => html`<span class="copy">
  <button type="button" class="btn btn-link btn-sm" @click=${(event) => copy(event.currentTarget.parentElement, text())}>Copy</button>
  <span class="reason" role="status"></span>
  <textarea class="clr-textarea" rows="2" readonly hidden aria-label="Text to copy" @blur=${(event) => show(event.target.parentElement, '', '')}></textarea></span>`;

async function copy(place, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    show(place, kRefused, text);
  }
}

// No template has these texts: drawing leaves them alone.
function show(place, sentence, text) {
  const field = place.querySelector('textarea');
  place.querySelector('[role=status]').textContent = sentence;
  field.value = text;
  field.hidden = text === '';
  if (field.hidden) return;
  field.focus();
  field.select();
}
