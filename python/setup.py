"""Says what pyproject.toml cannot: the wheel is for one platform, and for every Python."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class WithPrograms(Distribution):
    def has_ext_modules(self):
        return True


class ForEveryPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(distclass=WithPrograms, cmdclass={"bdist_wheel": ForEveryPython})
