// Host > Configure > RDMA adapters.
import { html } from '../lit.js';
import { speed, yes } from '../format.js';
import { answer, facts, section } from '../parts.js';
import { table } from '../table.js';
import { W } from '../words.js';

const columns = [
  { key: 'name', title: W.name, value: (device) => device.name },
  { key: 'driver', title: W.driver, value: (device) => device.driver },
  { key: 'state', title: W.state, value: (device) => (device.active ? 'Active' : 'Down') },
  { key: 'uplink', title: W.pairedUplink, value: (device) => device.paired_uplink || '--' },
  { key: 'v1', title: W.roceV1, value: (device) => yes(device.roce_v1) },
  { key: 'v2', title: W.roceV2, value: (device) => yes(device.roce_v2) },
  { key: 'iwarp', title: W.iwarp, value: (device) => yes(device.iwarp) },
];

export function rdma_adapters(store, host) {
  const grid = table(`rdma-adapters/${host.name}`, columns, { label: W.rdmaAdapters, key: (device) => device.name,
    empty: host.alive ? 'No RDMA adapters. Connections between hosts use TCP; none is needed.' : `${host.name} is not alive: its adapters are not known.` });
  const chosen = grid.chosen(host.rdma_devices);
  return html`${section(W.rdmaAdapters)}${grid.draw(host.rdma_devices)}${chosen ? detail(store, host, chosen) : ''}`;
}

function detail(store, host, device) {
  const address = host.vmks.find((vmk) => vmk.name === device.vmknic)?.address ?? '--';
  const counters = store.detail(`/v1/hosts/${host.self ? 'self' : encodeURIComponent(host.name)}/rdma/${encodeURIComponent(device.name)}/stats`, !host.self);
  return html`<section class="detail" aria-label="RDMA Device: ${device.name}">
    <h3 class="section-title">RDMA Device: ${device.name}</h3>
    <h4 class="detail-title">${W.properties}</h4>
    ${facts([[W.description, device.description || '--'], [W.mtu, device.mtu], [W.speed, speed(device.speed_mbps)]])}
    <h4 class="detail-title">${W.binding}</h4>
    ${device.vmknic ? facts([[W.vmkernelAdapter, device.vmknic], [W.tcpIpStack, 'defaultTcpipStack'], [W.ipAddress, address]])
      : html`<p class="empty">Net.PVRDMAVmknic is empty: no VMkernel adapter is bound.</p>`}
    <h4 class="detail-title">${W.counters}</h4>
    ${answer(counters, ({ stats }) => facts(Object.entries(stats)))}</section>`;
}
