"""The catalogue in SQLite: one set of tables and queries, for every backend that keeps its catalogue there.

``schema`` has the tables and the rows, ``writing`` applies changes, ``matching`` recognises histories, ``finding``
lists, searches and walks trees. All are functions of a connection inside the caller's transaction; the backend decides
who opens it, and when. Functions without a connection argument (``grow``, ``list_query``) also serve a catalogue in
another database.

No cost is proportional to the number of conversations: a fork takes the facts of its shared beginning from its parent's
row, a tree is found by its root, and each order of a list has an index.
"""
