"""The laboratory of the book: what its chapters and its ledger run, beside the library."""
