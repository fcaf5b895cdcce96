"""The catalogue in SQLite: one set of tables and queries, for every backend that keeps its catalogue there.

``schema`` has the tables and the rows, ``writing`` puts in what a change says, ``matching`` recognises histories,
``finding`` lists, searches and walks trees. All are functions of a connection inside the caller's transaction; who
opens it, and when, is the backend's business. What has no connection among its arguments (``grow``, ``list_query``) is
the same for a catalogue in another database.

Nothing costs time in proportion to the number of conversations: a fork takes what is known of its beginning from its
parent's row, a tree is found by its root, and each order of a list has an index.
"""
