"""The tests as on processors that are not here: products whose terms are added in another order."""
