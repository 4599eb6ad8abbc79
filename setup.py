"""The package is declared in pyproject.toml. Here is only what has no key there."""

import shutil

from setuptools import setup
from setuptools.command.build import build


class CleanBuild(build):
    """A build that starts empty: setuptools packs all that lies in build/lib, also modules gone from the tree."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build": CleanBuild})
