// One VM: Summary with its adapter, and how to power it on.
import { copy_button } from '../copy.js';
import { daemon_of, own_daemon } from '../daemon.js';
import { html } from '../lit.js';
import { count, memory, rate } from '../format.js';
import { answer, box, button, buttons, power_dot, facts, section, tabs, title } from '../parts.js';
import { to } from '../route.js';
import { save } from '../save.js';
import { mend_of, vm_actions } from '../vm_actions.js';
import { W } from '../words.js';
import { motion_part } from './motions.js';
import { vm_monitor } from './vm_monitor.js';
import { power } from './vms.js';

const pages = { summary: [W.summary, summary], monitor: [W.monitor, monitor], 'power-on': ['How to power on', power_on] };

export function vm(store, name, [tab = 'summary']) {
  const shown = store.data.vms.find((each) => each.name === name);
  const adapter = store.data.adapters.find((each) => each.name === name);
  if (!shown && !adapter) return html`${title(name)}${box('warning', `The cluster has no VM ${name}.`)}`;
  if (!shown) return html`${title(name)}${adapter_facts(adapter, adapter.rate)}${vm_monitor(store, own_daemon(store), adapter)}`;
  return html`${title(html`${power_dot(shown.power === 'on', store.live)} ${name}`, buttons(vm_actions(store, shown)))}
    ${tabs(name, Object.entries(pages).map(([key, [label]]) => [label, to('vms', name, key), tab === key]))}
    ${Object.hasOwn(pages, tab) ? pages[tab][1](store, shown, adapter) : box('warning', `A VM has no page ${tab}.`)}`;
}

function monitor(store, shown, adapter) {
  return html`${motion_part(store, shown)}
    ${adapter ? vm_monitor(store, own_daemon(store), adapter)
      : shown.adapter ? elsewhere(store, shown, (told, daemon) => vm_monitor(store, daemon, told)) : html`<p class="empty">The VM has no PVRDMA adapter.</p>`}`;
}

// What `draw` makes of the VM's adapter as the daemon of its host tells it, or why that is not known here.
function elsewhere(store, shown, draw) {
  const daemon = daemon_of(store, shown.host);
  if (daemon.trouble) return html`<p class="empty">${daemon.trouble}</p>`;
  const detail = daemon.detail(`/v1/adapters/${encodeURIComponent(shown.name)}`);
  return answer(detail, (told) => draw(told, daemon, detail.at_ms));
}

function summary(store, shown, adapter) {
  return html`
    ${refusal(store, shown, 'warning', shown.power_on_refusal)}
    ${shown.motion ? box('info', `${shown.name} is on its way to ${shown.motion.to}.`, html` <a href=${to('vms', shown.name, 'monitor')}>Progress</a>`) : ''}
    ${refusal(store, shown, 'danger', shown.not_served)}
    ${facts([[W.state, power(shown)], [W.host, shown.motion ? `${shown.host} → ${shown.motion.to}` : html`<a href=${to('hosts', shown.host)}>${shown.host}</a>`],
             [W.compatibility, `VM version ${shown.hardware_version}`], [W.memory, `${memory(shown.memory_mib)}, ${memory(shown.memory_reserved_mib)} reserved`]])}
    ${shown.adapter ? html`${section('PVRDMA adapter')}
      ${facts([[W.network, html`${shown.adapter.portgroup} (<a href=${to('networking', shown.adapter.dvs)}>${shown.adapter.dvs}</a>)`], [W.deviceProtocol, `RoCE ${shown.adapter.protocol}`],
               [W.macAddress, shown.adapter.mac], ['Profile', shown.adapter.profile], ['Doorbells', shown.adapter.doorbells],
               ['Addresses', shown.adapter.addresses.join(', ') || 'any'], ['Owner', shown.adapter.owner || '--'], ['Socket', shown.adapter.socket || '--']])}
      ${adapter ? adapter_facts(adapter, adapter.rate) : elsewhere(store, shown, (told, daemon, at_ms) => adapter_facts(told, daemon.rate_of(told, at_ms)))}`
      : html`<p class="empty">The VM has no PVRDMA adapter. Edit Settings gives it one.</p>`}`;
}

function refusal(store, shown, kind, reason) {
  if (!reason) return '';
  const mend = mend_of(store, shown, reason);
  return box(kind, reason, mend ? button(mend.label, mend.run, mend.why) : '');
}

function adapter_facts(adapter, throughput) {
  const objects = Object.entries(adapter.objects).filter(([, many]) => many > 0).map(([name, many]) => `${W[name] ?? name}: ${count(many)}`).join(', ');
  return html`${section('State')}
    ${adapter.trouble ? box('warning', adapter.trouble) : ''}
    ${facts([['Adapter', adapter.state], ['Link', adapter.link_up ? 'up' : 'down'], [W.mtu, adapter.mtu], ['Guest', adapter.guest_os || '--'],
             ['Driver version', adapter.driver_version || '--'], ['Throughput', rate(throughput)], ['Native endpoints', adapter.native_endpoints], ['Objects', objects || 'none']])}
    ${section('GIDs')}
    ${adapter.gids.length === 0 ? html`<p class="empty">The guest has bound no GID.</p>`
      : html`<ul class="plain">${adapter.gids.map((gid) => html`<li>${gid.index}: ${gid.gid} (RoCE ${gid.roce.replace(/^RoCE /, '')})${gid.lost_to ? html` <span class="label label-danger">lost to ${gid.lost_to}</span>` : ''}</li>`)}</ul>`}`;
}

function power_on(store, shown) {
  const path = `/v1/vms/${encodeURIComponent(shown.name)}`;
  return html`<p>pvrdmad starts no QEMU. Start the VM on ${shown.host} with these arguments and those of its disks, processors and
      network <code>net0</code>, or give libvirt the fragment.</p>
    ${section('QEMU')}
    ${answer(store.detail(`${path}/qemu-args`), ({ arguments: words }) => html`<pre class="code" tabindex="0">${words.join('\n')}</pre>
      <div class="table-tools">${copy_button(() => words.join('\n'))}</div>`)}
    ${section('libvirt')}
    ${answer(store.detail(`${path}/libvirt-xml`), ({ xml }) => html`<pre class="code" tabindex="0">${xml}</pre>
      <div class="table-tools">${copy_button(() => xml)}
        <button type="button" class="btn btn-link btn-sm" @click=${() => save(xml, 'application/xml', `${shown.name}.xml`)}>Download</button></div>`)}`;
}
