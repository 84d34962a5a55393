# SPDX-License-Identifier: Apache-2.0
"""Servers that serve https, with a certificate of their own making in home/tls."""
import socket
import ssl
import subprocess

from conftest import BINARY, Server
from ordinary_user import OrdinaryServer


class OverTls:
    """What is different for a Server that is asked over https. Its certificate must be made before it starts."""

    def tls_flags(self, home):
        self.tls = home / "tls"
        self.certificate, self.key = self.tls / "tls-cert.pem", self.tls / "tls-key.pem"
        return "--tls-cert", self.certificate, "--tls-key", self.key

    def words_that_make_a_certificate(self, *flags):
        return [BINARY, "certificate", "--out", self.tls, *flags]

    def start(self):
        super().start()
        self.listen = self.endpoint.removeprefix("https://")
        return self

    def client(self, service, **options):
        return super().client(service, **({"verify": str(self.certificate)} | options))

    def address(self):
        host, port = self.listen.rsplit(":", 1)
        return host, int(port)

    def connect(self):
        return socket.create_connection(self.address(), timeout=20)

    def context(self):
        return ssl.create_default_context(cafile=self.certificate)

    def shown(self):
        """The certificate that a new connection is shown."""
        with self.context().wrap_socket(self.connect(), server_hostname="127.0.0.1") as tls:
            return tls.getpeercert(binary_form=True)


class TlsServer(OverTls, Server):
    def __init__(self, home, *flags):
        super().__init__(home, *self.tls_flags(home), *flags)

    def make_certificate(self, *flags):
        return subprocess.run(self.words_that_make_a_certificate(*flags), capture_output=True, text=True)


class OrdinaryTlsServer(OverTls, OrdinaryServer):
    def __init__(self, user, home):
        super().__init__(user, *self.tls_flags(user.home / home), home=home)

    def make_certificate(self):
        words = self.user.command(*self.words_that_make_a_certificate())
        return subprocess.run(words, env=self.user.environment(), capture_output=True, text=True)
