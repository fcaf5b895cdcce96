"""Every promise of translation, over bodies that other projects recorded or wrote for their own tests.

The corpus is not part of the project: ``CANNERY_CORPUS`` names it (an archive or a folder), else
``../shared/corpus.tar.xz`` is taken where it is there. Without it these tests are skipped. A defect
that is found here gets a small body of our own as its regression case.
"""
