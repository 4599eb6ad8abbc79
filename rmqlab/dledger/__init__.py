"""One member of a DLedger 0.3.1.2 group, without network and clock.

`rmqlab.broker.dledger` runs it in a broker. Sections that docstrings name are those of docs/protocol/dledger.md.
"""
