"""What a log can tell, by its design: values, means over users, ranges and judgements of pairs."""
