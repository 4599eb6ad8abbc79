"""SQL aggregates that keep Spark from sorting all rows."""


def in_memory(column: str) -> str:
    """Return the aggregate `nulls`, which keeps Spark from sorting all rows.

    For aggregates of texts and structs in few groups: with a list among them, Spark holds the groups in a hash table.
    The list has one element for each null of a column that has none, so it is always empty. The query around must use
    it, or Spark removes it.
    """
    return f"collect_list(if({column} is null, true, null)) nulls"
