"""From a file in some format to lines, columns or pairs, with the line number of every fault."""
