// One host: Summary, Monitor and Configure.
import { html } from '../lit.js';
import { host_actions } from '../dialogs/host.js';
import { yes } from '../format.js';
import { box, buttons, dot, facts, side_list, tabs, title } from '../parts.js';
import { to } from '../route.js';
import { W } from '../words.js';
import { monitor } from './host_monitor.js';
import { advanced, firewall } from './host_system.js';
import { physical_adapters, virtual_switches, vmkernel_adapters } from './host_network.js';
import { rdma_adapters } from './rdma_adapters.js';

const networking = { 'virtual-switches': [W.virtualSwitches, virtual_switches], 'physical-adapters': [W.physicalAdapters, physical_adapters],
                     'rdma-adapters': [W.rdmaAdapters, rdma_adapters], 'vmkernel-adapters': [W.vmkernelAdapters, vmkernel_adapters] };
const system = { advanced: [W.advanced, advanced], firewall: [W.firewall, firewall] };

export function host(store, name, [tab = 'summary', ...rest]) {
  const shown = store.data.hosts.find((each) => each.name === name);
  if (!shown) return html`${title(name)}${box('warning', `The cluster has no host ${name}.`)}`;
  return html`${title(html`${dot(shown.alive, store.live)} ${name}`, buttons(host_actions(store, shown)))}
    ${tabs(name, [[W.summary, to('hosts', name, 'summary'), tab === 'summary'],
                  [W.monitor, to('hosts', name, 'monitor'), tab === 'monitor'], [W.configure, to('hosts', name, 'configure'), tab === 'configure']])}
    ${tab === 'configure' ? configure(store, shown, rest) : tab === 'monitor' ? monitor(store, shown, rest) : summary(store, shown)}`;
}

function configure(store, shown, [page = 'virtual-switches']) {
  const links = (group) => Object.entries(group).map(([key, [label]]) => [label, to('hosts', shown.name, 'configure', key), key === page]);
  const pages = { ...networking, ...system };
  const found = Object.hasOwn(pages, page) ? pages[page] : null;
  return html`<div class="with-side">${side_list([[W.networking, links(networking)], [W.system, links(system)]])}
    <div class="side-content">${found ? found[1](store, shown) : box('warning', `A host has no page ${page}.`)}</div></div>`;
}

function summary(store, shown) {
  const { data } = store;
  const peer = data.cluster?.tcp.peers.find((each) => each.host === shown.name);
  const { trouble } = data.cluster?.hosts.find((each) => each.name === shown.name) ?? { trouble: '' };
  return html`${trouble ? box('warning', trouble) : ''}
    ${facts([
      [W.state, shown.alive ? 'alive' : 'not alive'], [W.version, shown.version || '--'],
      [W.vms, data.vms.filter((vm) => vm.host === shown.name).map((vm) => vm.name).join(', ') || 'none'],
      ['PVRDMA VMkernel adapter', shown.pvrdma_vmknic || 'none'],
      ['Firewall', shown.firewall ? `ruleset pvrdma ${shown.ruleset.enabled ? 'enabled' : 'disabled'}` : 'disabled: it admits everything'],
      ['RDMA devices', shown.alive ? shown.rdma_devices.map((device) => device.name).join(', ') || 'none' : '--'],
      ['Answers this page', yes(shown.self)],
      ['Lanes from here', shown.self ? '--' : peer ? `${peer.lanes_up}${peer.trouble ? `: ${peer.trouble}` : ''}` : 'none'],
    ])}`;
}
