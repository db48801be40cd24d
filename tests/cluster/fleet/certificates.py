"""Certificates for the tests' hosts, made with openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fleet.host import Certificates


class Authority:
    """A certificate authority in `folder`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                 "-subj", f"/CN=pvrdma test {name}", "-keyout", str(self._key), "-out", str(self.certificate))

    def issue(self, host: str, file: str | None = None, days: int = 1) -> Certificates:
        """A certificate that names `host`. With negative `days` it has expired."""
        file = file or host
        key, request, certificate = (self._folder / f"{file}.{kind}" for kind in ("key", "csr", "crt"))
        extension = self._folder / f"{file}.ext"
        extension.write_text(f"subjectAltName=DNS:{host}\n", encoding="ascii")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={host}",
                 "-keyout", str(key), "-out", str(request))
        serial = ("-set_serial", str(abs(hash(file)) % 10**9 + 1))
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key), *serial,
                 "-days", str(days), "-extfile", str(extension), "-out", str(certificate))
        return Certificates(self.certificate, certificate, key)


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(arguments)}: {done.stderr}")
