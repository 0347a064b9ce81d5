"""Read files of many formats as lines, columns or pairs; errors name the line."""
