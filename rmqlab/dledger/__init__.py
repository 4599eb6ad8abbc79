"""One member of a DLedger 0.3.1.2 group, without network and clock.

No broker uses it yet (issue 16). Sections that docstrings name are those of docs/protocol/dledger.md.
"""
