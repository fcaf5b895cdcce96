"""The gateway: any client, any provider, every exchange kept.

call
    one request of a client on its way through
caller
    the client, and the dialect that it speaks
upstream
    a provider, or a server like one: a row of the configuration (``upstreams``), or the built-in ``echo``
pass through
    send a body on as it came, because the caller and the upstream speak the same dialect
exchange
    a call and its reply
recorder
    what files exchanges in the store, behind the reply's back
ledger
    what the running gateway remembers of histories, so that a reply can name its conversation at once

A call goes ``listening`` → ``routing`` → ``ingress`` → ``exchange`` → ``upstreams`` and back; every
other module serves one of these. Nothing here is imported by ``import cannery``.
"""

from cannery.gateway.serving import serve
from cannery.gateway.settings import Settings, load_settings

__all__ = ["Settings", "load_settings", "serve"]
