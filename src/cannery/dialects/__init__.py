"""How providers spell it: every module here is one dialect and has one value, ``DIALECT``.

A dialect is found by its module's name. Dialects never import each other; what two of them share lives in
``cannery.wire``.
"""
