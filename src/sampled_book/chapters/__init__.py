"""One module for each chapter: its tables, figures and text values; and its parameters."""
