"""A broker in a DLedger group: section 8 of docs/protocol/dledger.md."""
