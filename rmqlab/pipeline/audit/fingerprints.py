"""Compare many rows by one value, without a join, a sort or a shuffle of them."""


def fingerprint(*columns: str) -> str:
    """Return an aggregate: a struct that is equal for the same rows in any order.

    It differs for other rows, but for a chance of about 2^-64. The sum finds rows that occur twice, which `bit_xor`
    does not. It adds 24 bits of each hash, so it cannot overflow below 10^11 rows.
    """
    hashed = f"xxhash64({', '.join(columns)})"
    return f"struct(count(*) found, bit_xor({hashed}) combined, sum({hashed} & 16777215) added)"


def differing_groups(text: str, *groups: str) -> str:
    """Return a query with a row for each group whose two fingerprints differ.

    `text` is a query with a row for each side that has rows, and its fingerprint in column `rows_of_side`. Without
    `groups`, all its rows are one group.
    """
    by = f" group by {', '.join(groups)}" if groups else ""
    return f"select count(*) sides from ({text}){by} having sides = 1 or min(rows_of_side) != max(rows_of_side)"
