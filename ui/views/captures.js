// Captures: those that run on this host, and the files that this page has.
import { html } from '../lit.js';
import { discard_file, end_capture, new_capture } from '../dialogs/capture.js';
import { bytes, dateAndTime } from '../format.js';
import { answer, button, buttons, section, title } from '../parts.js';
import { recordings } from '../recordings.js';
import { to } from '../route.js';
import { Table, table } from '../table.js';
import { W } from '../words.js';

const running = [
  { key: 'id', title: 'ID', value: (capture) => capture.id, number: true },
  { key: 'adapter', title: W.adapter, value: (capture) => capture.adapter, cell: (capture) => html`<a tabindex="-1" href=${to('vms', capture.adapter)}>${capture.adapter}</a>` },
  { key: 'filter', title: 'Filter', value: (capture) => capture.filter || 'all messages' },
  { key: 'since', title: W.since, value: (capture) => dateAndTime(capture.started_s * 1000) },
  { key: 'sent', title: 'Size so far', value: (capture) => capture.sent_bytes, cell: (capture) => bytes(capture.sent_bytes), number: true },
  { key: 'dropped', title: 'Dropped frames', value: (capture) => capture.dropped, number: true },
];

const files = [
  { key: 'adapter', title: W.adapter, value: (file) => file.adapter },
  { key: 'filter', title: 'Filter', value: (file) => file.filter || 'all messages' },
  { key: 'since', title: W.since, value: (file) => dateAndTime(file.at_ms) },
  { key: 'size', title: 'Size', value: (file) => file.bytes, cell: (file) => bytes(file.bytes), number: true },
  { key: 'state', title: W.state, value: (file) => file.state },
];

export const captures = (store) => html`${title(W.captures)}
  ${section('Running on this host')}
  ${answer(store.detail('/v1/captures'), (list) => draw_running(store, list))}
  ${section('Files of this page')}
  ${draw_files()}`;

function draw_running(store, list) {
  const actions = (capture) => [[`End capture ${capture.id}`, () => end_capture(capture), '', store.cannot_act !== '']];
  const grid = table('captures', running, { label: 'Running on this host', key: (capture) => capture.id, actions, empty: 'No capture runs.' });
  const chosen = grid.chosen(list);
  return grid.draw(list, html`${button(W.capture, () => new_capture(store), store.cannot_act_on_adapters)}
    ${chosen ? buttons(actions(chosen)) : ''}`);
}

const file_actions = (file) => [['Save', () => file.save(), '', !file.bytes], ['Stop', () => { file.stop(); Table.changed(); }, '', file.state !== 'runs'],
                                ['Discard', () => discard_file(file)]];

function draw_files() {
  const grid = table('capture-files', files, { label: 'Files of this page', key: (file) => file.id, actions: file_actions, empty: 'Files stay here until they are discarded or the page is left.' });
  const chosen = grid.chosen(recordings);
  return grid.draw(recordings, chosen ? buttons(file_actions(chosen)) : '');
}
