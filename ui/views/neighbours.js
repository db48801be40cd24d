// Neighbours: the connections of a host to the other hosts and to the store.
import { html } from '../lit.js';
import { bytes, yes } from '../format.js';
import { answer, box, facts, section } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

export const neighbours = (store, daemon) => answer(daemon.cluster, draw);

function draw({ tcp, hca, store: etcd }) {
  const hca_of = (peer) => hca.peers.find((each) => each.host === peer.host);
  const columns = [
    { key: 'host', title: W.host, value: (peer) => peer.host, cell: (peer) => html`<a tabindex="-1" href=${to('hosts', peer.host)}>${peer.host}</a>` },
    { key: 'lanes', title: 'Lanes up', value: (peer) => peer.lanes_up, number: true },
    { key: 'sessions', title: 'Sessions up', value: (peer) => peer.sessions_up, number: true },
    { key: 'reconnects', title: 'Reconnects', value: (peer) => peer.reconnects, number: true },
    { key: 'hca', title: W.hca, value: (peer) => (hca_of(peer) ? (hca_of(peer).up ? 'up' : 'not up') : '--') },
    { key: 'falls', title: 'HCA falls', value: (peer) => hca_of(peer)?.falls ?? '--', number: true },
    { key: 'trouble', title: 'Trouble', value: (peer) => [peer.trouble, hca_of(peer)?.trouble].filter(Boolean).join('; ') || '--' },
  ];
  return html`${section(W.neighbours)}
    ${tcp.listening ? '' : box('warning', `This host does not listen for others${tcp.trouble ? `: ${tcp.trouble}` : '.'}`)}
    ${table('neighbours', columns, { label: W.neighbours, key: (peer) => peer.host, empty: 'No other host is connected to this one.' }).draw(tcp.peers)}
    ${section('Store')}
    ${facts([['Store', etcd.description], ['Connected', yes(etcd.connected)], ['Trouble', etcd.trouble || 'none'], ['Edits', etcd.edits], ['Conflicts', etcd.conflicts],
             ['Size', etcd.size_bytes ? `${bytes(etcd.size_bytes)}, of which ${bytes(etcd.used_bytes)} hold data` : '--'],
             ['Alarms', etcd.alarms || 'none'], ['Caretaker', etcd.caretaker || 'none'],
             ['Bad records', etcd.bad_records], ['Read again', etcd.resyncs]])}`;
}
