"""The viewer: conversations of a store as pages that a browser shows.

renderer
    pure functions from canisters to HTML (``contents``, ``messages``, ``markdown``, ``highlighting``, ``differences``)
block
    what stands together on a page: one message, or calls with their results (``arrangement``)
page
    a whole document, or the part of one that a script asks for (``pages``)
mark
    a loss, a repair or a finding of the doctor, at the message that it is about (``marks``)
site
    what answers requests, without knowing HTTP servers (``site``); the gateway and ``cannery view`` serve it
live
    an answer that is being given now (``live``)

Nothing of a conversation is ever executed or fetched. Text is escaped, Markdown is rendered without HTML and sanitised,
media come from the store under types that cannot run, and every page forbids the rest by its content security policy
(``safety``). Rendered text is cached by the digest of what was said, which never changes.
"""
