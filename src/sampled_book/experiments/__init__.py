"""What chapters compute at length: sampling designs, corrections and decoys."""
