"""NFS over RDMA (overlays "nvme" and "array"): a folder of one guest, exported by nfsd, mounted by the other."""

from __future__ import annotations

from harness.vm import Vm

_SERVER = """set -e
modprobe -a nfsd rpcrdma
mkdir -p /srv /var/lib/nfs/v4recovery /etc/exports.d
mount -t tmpfs -o size=96m srv /srv
mount -t nfsd nfsd /proc/fs/nfsd 2>/dev/null || :
touch /etc/exports /var/lib/nfs/etab /var/lib/nfs/rmtab
exportfs -o rw,insecure,no_root_squash,no_subtree_check,fsid=0 '*:/srv'
echo 10 > /proc/fs/nfsd/nfsv4leasetime
echo 10 > /proc/fs/nfsd/nfsv4gracetime
rpc.mountd -N 3
rpc.nfsd -N 3 --rdma=20049 4
echo Y > /proc/fs/nfsd/v4_end_grace
"""


def export_folder(server: Vm) -> None:
    """Starts the server with an empty folder."""
    server.check(_SERVER, 60)


def load_client(client: Vm) -> None:
    """Loads the client's modules."""
    client.check("modprobe -a nfsv4 rpcrdma")


def mount(server: Vm) -> str:
    """The command that mounts the folder, without the mount point."""
    return f"mount.nfs -o vers=4.2,proto=rdma,port=20049 {server.address}:/"
