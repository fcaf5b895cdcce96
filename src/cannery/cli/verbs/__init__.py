"""Every module here is a verb: ``DESCRIPTION``, ``EXAMPLES``, ``add_arguments(parser)`` and ``run(options)``.

``USES_STORE`` gives a verb the option ``--store``. A verb parses, calls the library and prints; it decides nothing.
"""
