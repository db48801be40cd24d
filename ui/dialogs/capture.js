// Begins a capture of an adapter's messages, whose file this page keeps.
import { html } from '../lit.js';
import { show } from '../dialog.js';
import { select, text } from '../fields.js';
import { bytes, quoted, timeOfDay } from '../format.js';
import { record } from '../recordings.js';
import { go } from '../route.js';
import { Table } from '../table.js';
import { W } from '../words.js';

const wish = ({ adapter, ...values }) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''));

export const new_capture = (store, adapter = store.data.adapters[0]?.name ?? '') => show({
  title: W.capture,
  target: adapter,
  ok: W.capture,
  of_host: true,
  values: { adapter, filter: '', snaplen: 96, count: '', duration: 10 },
  body: (dialog) => html`
    <p>The file has the adapter's messages as RoCE frames. Frames are synthesised, and contain data of the guest.</p>
    ${select(dialog, 'adapter', W.adapter, store.data.adapters.map((each) => [each.name, each.name]))}
    ${text(dialog, 'filter', 'Filter', { placeholder: 'all messages', note: 'such as "qp 17 and (op write or error)": qp NUMBER, peer ADDRESS, op send, write, read, atomic or datagram, path local, tcp, hca, roce or none, in, out, request, answer, error; and, or, not, parentheses' })}
    ${text(dialog, 'snaplen', 'Bytes of each frame', { type: 'number', note: '96 leave most of the data out; at most 262144' })}
    ${text(dialog, 'count', 'Frames', { type: 'number', placeholder: 'any number', note: 'the capture ends after these' })}
    ${text(dialog, 'duration', 'Seconds', { type: 'number', placeholder: 'until it is stopped', note: 'the page keeps 64 MiB at most; for more, use the line below' })}`,
  edits: (values) => [{ method: 'POST', path: `/v1/adapters/${encodeURIComponent(values.adapter)}/capture`, body: wish(values) }],
  run: ([{ path, body }], { adapter: name }) => record(name, path, body, Table.changed),
  commands: ({ adapter: name, filter, snaplen, count, duration }) => [`pvrdmactl capture ${quoted(name)} -w ${quoted(`${name}.pcapng`)}${filter ? ` --filter ${quoted(filter)}` : ''}${
    snaplen === '' ? '' : ` --snaplen ${snaplen}`}${count === '' ? '' : ` --count ${count}`}${duration === '' ? '' : ` --duration ${duration}`}`],
  done: () => go('captures'),
});

// The page's file, which exists nowhere else unless it was saved.
export const discard_file = (file) => show({
  title: `Discard ${file.file_name}`,
  target: file.adapter,
  ok: 'Discard',
  danger: true,
  of_page: true,
  values: {},
  body: () => html`<p>Discards the file of ${file.adapter} that was begun at ${timeOfDay(file.at_ms)}, ${bytes(file.bytes)}. If its capture runs, it is stopped.</p>`,
  edits: () => [],
  run: async () => file.discard(),
  commands: () => [],
});

export const end_capture = (capture) => show({
  title: `End capture ${capture.id}`,
  target: capture.adapter,
  ok: 'End',
  danger: true,
  of_host: true,
  values: {},
  body: () => html`<p>Ends the capture of ${capture.adapter}. Its file is complete then.</p>`,
  edits: () => [{ method: 'DELETE', path: `/v1/captures/${capture.id}` }],
  commands: () => [`pvrdmactl adapter capture end ${capture.id}`],
});
