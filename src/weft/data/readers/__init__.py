"""Reading files: formats, separators, columns, part files, row errors."""
