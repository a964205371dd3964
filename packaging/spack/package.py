from spack_repo.builtin.build_systems.generic import Package

from spack.package import (
    EnvironmentModifications,
    Executable,
    depends_on,
    join_path,
    license,
    variant,
    version,
    which,
)


class Esker(Package):
    """An object store for HPC that speaks the DAOS API and runs without a server: in the memory or on the
    disks of a node, on a shared file system, or on Ceph.
    """

    homepage = "https://github.com/esker-store/esker"
    git = "https://github.com/esker-store/esker.git"

    license("Apache-2.0", checked_by="esker-store")

    version("main", branch="main")

    variant("grib", default=True, description="Read GRIB fields with ecCodes")
    variant("fuse", default=False, description="Mount file systems as a user who is not root")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("rust@1.92:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("util-linux-uuid", type=("build", "link", "run"))
    depends_on("eccodes", type="run", when="+grib")
    depends_on("libfuse@3: +utils", type="run", when="+fuse")

    phases = ["build", "install"]

    def build(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("build", "--release", "--locked", f"-j{self.module.make_jobs}", *_packages())

    def install(self, spec, prefix):
        install_script = Executable(join_path(self.stage.source_path, "scripts", "install.sh"))
        built = join_path("target", "release")
        files = [join_path(built, name) for name in ("esker", "libdaos.so", "libesker_preload.so")]
        install_script(*files, "", prefix)

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        # Programs built for DAOS load libdaos, and the field store loads ecCodes.
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)
        if self.spec.satisfies("+grib"):
            env.set("ECCODES_DIR", self.spec["eccodes"].prefix)

    def setup_dependent_build_environment(self, env: EnvironmentModifications, dependent_spec) -> None:
        # find_package(DAOS) of CMake, and pkg-config, which Spack does not search in `lib` of every prefix.
        env.prepend_path("CMAKE_PREFIX_PATH", self.prefix)
        env.prepend_path("PKG_CONFIG_PATH", join_path(self.prefix.lib, "pkgconfig"))

    def test_version(self):
        """the command starts, and has the version of the package"""
        esker = which(self.prefix.bin.esker, required=True)
        assert "esker" in esker("--version", output=str.split, error=str.split)


def _packages():
    names = ("cli", "bench", "libdaos", "preload", "preload-store")
    return [word for name in names for word in ("-p", f"esker-{name}")]
