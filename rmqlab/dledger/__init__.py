"""One member of a DLedger 0.3.1.2 group, without network and clock.

Bodies, files and state machines.
Sections that docstrings name are those of docs/protocol/dledger.md.
"""
