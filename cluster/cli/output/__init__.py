"""What commands print, and how: lines, tables, progress."""
