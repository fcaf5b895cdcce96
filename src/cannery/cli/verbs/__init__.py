"""The verbs: each module defines ``DESCRIPTION``, ``EXAMPLES``, ``add_arguments(parser)`` and ``run(options)``.

``USES_STORE`` gives a verb the option ``--store``. A verb parses its arguments, calls the library and prints the
result.
"""
