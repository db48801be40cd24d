// The network's boxes and lines, and the summary of connections.
import { equal, test } from './harness.js';
import { drawn, linked_with, topology_of } from '../../../ui/topology.js';
import { summary_of } from '../../../ui/views/connections.js';

const host = (name, self = false) => ({ name, self, alive: true });
const vm = (name, on) => ({ name, host: on, adapter: { dvs: 'DSwitch', portgroup: 'Net' } });
const data = {
  hosts: [host('esx-01', true), host('esx-02'), host('esx-03')],
  dvs: [{ name: 'DSwitch', version: '8.0.0', uplinks: ['uplink1', 'uplink2'], portgroups: [{ name: 'Net', vlan: 7 }, { name: 'Other', vlan: 0 }],
          members: [{ host: 'esx-01', uplinks: { uplink1: 'vmnic0', uplink2: '' } }, { host: 'esx-02', uplinks: {} }] }],
  vms: [vm('VM-02', 'esx-02'), vm('VM-01', 'esx-01'), { name: 'VM-03', host: 'esx-01', adapter: null }],
  cluster: { tcp: { peers: [{ host: 'esx-02', lanes_up: 4 }, { host: 'esx-03', lanes_up: 0 }] } },
};
const ids = (boxes) => boxes.map(({ id }) => id);

test('each object is a box in its column', () => {
  const { columns } = topology_of(data, new Map());
  equal(ids(columns.vms), ['vms/VM-01', 'vms/VM-03', 'vms/VM-02']);
  equal(ids(columns['port-groups']), ['port-groups/DSwitch/Net', 'port-groups/DSwitch/Other']);
  equal(ids(columns.uplinks), ['uplinks/DSwitch/esx-01/uplink1']);
  equal(ids(columns.hosts), ['hosts/esx-01', 'hosts/esx-02', 'hosts/esx-03']);
});

test('a path between hosts is what most connections take, or what they would', () => {
  const kinds = (paths) => topology_of(data, new Map([['esx-01', paths]])).links.filter(({ kind }) => kind !== 'network').map(({ to, kind }) => [to, kind]);
  equal(kinds([]), [['hosts/esx-02', 'tcp'], ['hosts/esx-03', 'none']]);
  const path = (peer_host, kind, connections = 1) => ({ peer_host, path: kind, connections });
  equal(kinds([path('esx-02', 'tcp'), path('esx-02', 'hca', 2), path('esx-01', 'local')]),
        [['hosts/esx-02', 'hca'], ['hosts/esx-03', 'none']]);
});

test('other hosts tell their paths', () => {
  const path = (peer_host, kind, connections = 1) => ({ peer_host, path: kind, connections });
  const paths = new Map([['esx-01', []], ['esx-02', [path('esx-03', 'hca', 3), path('esx-02', 'local'), path('', 'roce'), path('esx-09', 'tcp')]],
                         ['esx-03', [path('esx-02', 'hca'), path('esx-02', 'tcp', 3), path('esx-01', 'tcp')]]]);
  equal(topology_of(data, paths).links.filter(({ kind }) => kind !== 'network').map(({ from, to, kind }) => [from, to, kind]),
        [['hosts/esx-01', 'hosts/esx-02', 'tcp'], ['hosts/esx-01', 'hosts/esx-03', 'tcp'], ['hosts/esx-02', 'hosts/esx-03', 'hca']]);
});

test('without this host there is no path', () => {
  const without = { ...data, hosts: [host('esx-02'), host('esx-03')], cluster: null };
  equal(topology_of(without, new Map()).links.filter(({ kind }) => kind !== 'network'), []);
});

test('a VM is linked with its hosts through the switch, not with other VMs', () => {
  equal([...linked_with('vms/VM-01', topology_of(data, new Map()))].sort(),
        ['hosts/esx-01', 'port-groups/DSwitch/Net', 'switches/DSwitch', 'uplinks/DSwitch/esx-01/uplink1', 'vms/VM-01']);
  equal([...linked_with('vms/VM-03', topology_of(data, new Map()))], ['vms/VM-03']);
});

test('a long column is cut', () => {
  equal(drawn(Array(100).fill({})).more, 60);
  equal(drawn(Array(40).fill({})).more, 0);
});

test('connections with the same path and reason are one row', () => {
  const one = (adapter, path, reason, peer_host, connections = 1) => ({ adapter, path, reason, peer_host, connections });
  const rows = summary_of([one('VM-01', 'tcp', 'no RDMA NIC', 'esx-02'), one('VM-02', 'local', 'same host', 'esx-01'),
                           one('VM-02', 'tcp', 'no RDMA NIC', 'esx-03'), one('VM-01', 'tcp', 'other', 'esx-02', 4)]);
  equal(rows.map(({ path, reason, count, adapters, peers }) => [path, reason, count, [...adapters], [...peers]]), [
    ['tcp', 'other', 4, ['VM-01'], ['esx-02']],
    ['tcp', 'no RDMA NIC', 2, ['VM-01', 'VM-02'], ['esx-02', 'esx-03']],
    ['local', 'same host', 1, ['VM-02'], ['esx-01']]]);
});
