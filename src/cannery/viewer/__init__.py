"""The viewer: conversations of a store as HTML pages.

renderer
    pure functions from canisters to HTML (``contents``, ``messages``, ``markdown``, ``highlighting``, ``differences``)
block
    a unit of a page: one message, or calls with their results (``arrangement``)
page
    a whole document, or a part of one that the script requests (``pages``)
mark
    a loss, a repair or a finding of the doctor, attached to its message (``marks``)
site
    answers requests, independent of any HTTP server (``site``); the gateway and ``cannery view`` serve it
live
    an answer that is being streamed (``live``)

Nothing in a conversation is ever executed or fetched. Text is escaped, Markdown is rendered without HTML and sanitised,
media are served from the store under types that cannot run code, and the content security policy of every page forbids
the rest (``safety``). Rendered text is cached by the digest of its source, so entries never become invalid.
"""
