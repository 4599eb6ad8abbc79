"""The account of a workload, which signs requests if the cluster checks access."""

from typing import TYPE_CHECKING, Any

from rmqlab.remoting.acl import Credentials, keys_fault

if TYPE_CHECKING:
    import attrs


def credentials_of(access_key: str, secret_key: str) -> Credentials | None:
    """Return the account of these keys.

    None, for unsigned requests, if both are missing.
    """
    return Credentials(access_key, secret_key) if access_key or secret_key else None


def fits_access_key(workload: Any, _attribute: "attrs.Attribute[str]", secret_key: str) -> None:
    """Validate a workload's secret key with its access key, the previous field."""
    if (workload.access_key or secret_key) and (fault := keys_fault(workload.access_key, secret_key)) is not None:
        raise ValueError(fault)
