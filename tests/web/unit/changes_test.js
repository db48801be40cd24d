// How the last step of a wizard shows values.
import { path_of, shown, telling } from '../../../ui/changes.js';
import { equal, test } from './harness.js';

test('a value of each kind has a text', () => {
  equal([null, '', 0, false, 'vmk2', 9000].map(shown), ['--', 'none', '0', 'No', 'vmk2', '9000']);
});

test('lists are joined, and an empty object says only that it is there', () => {
  equal([['uplink1', 'uplink2'], [], {}].map(shown), ['uplink1, uplink2', 'none', 'yes']);
});

test('members have the words of the forms, and what people have named keeps its name', () => {
  equal(['portgroups/mtu/mtu', 'members/host/uplinks', 'hardware_version', 'adapter/mac', 'vmks/vmk2', 'of_a_newer_daemon'].map(path_of),
        ['Port Groups › mtu › MTU', 'Hosts › host › uplinks', 'Compatibility', 'PVRDMA adapter › MAC Address', 'VMkernel adapters › vmk2', 'of_a_newer_daemon']);
});

test('what only holds other members is left out', () => {
  const members = [['members', {}], ['members/esx-01', {}], ['portgroups', {}], ['portgroups/A', {}], ['portgroups/A/mtu', 1500], ['uplinks', []], ['vlan', null]]
    .map(([member, after]) => ({ member, after }));
  equal(telling(members).map(({ member }) => member), ['members/esx-01', 'portgroups/A/mtu', 'uplinks', 'vlan']);
});
