"""The versions of ACL files, which request 52 returns."""

import pathlib

from rmqlab.broker.acl.control import AccessControl


async def test_only_files_with_content_have_versions(tmp_path: pathlib.Path) -> None:
    """Class PlainPermissionManager: load skips the others."""
    folder = tmp_path / "conf" / "acl"
    folder.mkdir(parents=True)
    (folder / "more.yml").touch()
    control = AccessControl.open(tmp_path, lambda: 1_800_000_000_000)
    assert (control.version.counter, control.versions) == (0, {})
    await control.update_account({"accessKey": "newcomer", "secretKey": "12345678"})
    assert control.versions == {str(tmp_path / "conf" / "plain_acl.yml"): control.version}
    assert control.version.counter == 1
