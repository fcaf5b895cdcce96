"""The gateway: an HTTP proxy between any client and any provider that records every exchange.

call
    one request of a client, from its arrival to the end of its reply
caller
    the client, and the dialect that it uses
upstream
    a provider, or a compatible server: a row of the configuration (``upstreams``), or the built-in ``echo``
pass through
    forward a body unchanged, because the caller and the upstream use the same dialect
exchange
    a call and its reply
recorder
    files exchanges in the store, in the background
ledger
    the gateway's cache of histories, so that a reply can name its conversation at once

A call goes ``listening`` → ``routing`` → ``ingress`` → ``exchange`` → ``upstreams`` and back; every other module serves
one of these. Nothing here is imported by ``import cannery``.
"""

from cannery.gateway.serving import serve
from cannery.gateway.settings import Settings, load_settings

__all__ = ["Settings", "load_settings", "serve"]
