"""Files in and out: logs, results of other libraries, and outputs that appear when complete."""
