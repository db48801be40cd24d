// How the last step of a wizard shows values.
import { path_of, shown, telling, value_of } from '../../../ui/changes.js';
import { equal, test } from './harness.js';

test('a value of each kind has a text', () => {
  equal([null, '', 0, false, 'vmk2', 9000].map(shown), ['--', 'none', '0', 'No', 'vmk2', '9000']);
});

test('lists are joined, and an empty object says only that it is there', () => {
  equal([['uplink1', 'uplink2'], [], {}].map(shown), ['uplink1, uplink2', 'none', 'yes']);
});

test('values are shown as the other views show them', () => {
  equal([['hardware_version', 14], ['adapter/protocol', 'v2'], ['adapter/addresses', []], ['portgroups/A/native_peers', []], ['portgroups/A/vlan', 0], ['vlan', 7], ['adapter/addresses', null]]
    .map(([member, value]) => value_of(member, value)), ['VM version 14', 'RoCE v2', 'any', 'all', 'None', '7', '--']);
});

test('members have the words of the forms, and what people have named keeps its name', () => {
  equal(['portgroups/mtu/mtu', 'members/host/uplinks', 'hardware_version', 'adapter/mac', 'vmks/vmk2', 'of_a_newer_daemon'].map(path_of),
        ['Port Groups › mtu › MTU', 'Hosts › host › uplinks', 'Compatibility', 'PVRDMA adapter › MAC Address', 'VMkernel adapters › vmk2', 'of_a_newer_daemon']);
});

test('in an object that is added, what has no text is left out', () => {
  const members = [{ member: 'arrived_by', after: '' }, { member: 'host', after: 'esx-01' }];
  equal([telling(members), telling(members, true)].map((told) => told.map(({ member }) => member)), [['arrived_by', 'host'], ['host']]);
});

test('what only holds other members is left out', () => {
  const members = [['members', {}], ['members/esx-01', {}], ['portgroups', {}], ['portgroups/A', {}], ['portgroups/A/mtu', 1500], ['uplinks', []], ['vlan', null]]
    .map(([member, after]) => ({ member, after }));
  equal(telling(members).map(({ member }) => member), ['members/esx-01', 'portgroups/A/mtu', 'uplinks', 'vlan']);
});
