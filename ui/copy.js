// Copy buttons. A browser keeps the clipboard from a page without TLS of another machine, and people may forbid it: the button then
// shows the text, selected.
import { html } from './lit.js';

const kRefused = 'The browser keeps the clipboard from this page: press Ctrl+C.';

// `text` returns what is copied. The note lies over what is above the button's line, so nothing moves when it comes, or goes as the
// focus leaves it.
export const copy_button = (text) => html`
  <button type="button" class="btn btn-link btn-sm" @click=${(event) => copy(event.currentTarget.nextElementSibling, text())}>Copy</button>
  <span class="copy-note"><span role="status"></span>
    <textarea class="clr-textarea" rows="2" readonly hidden aria-label="Text to copy" @blur=${(event) => show(event.target.parentElement, '', '')}></textarea></span>`;

async function copy(note, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    show(note, kRefused, text);
  }
}

// No template has these texts: drawing leaves them alone.
function show(note, sentence, text) {
  const field = note.querySelector('textarea');
  note.querySelector('[role=status]').textContent = sentence;
  field.value = text;
  field.hidden = text === '';
  if (field.hidden) return;
  field.focus();
  field.select();
}
