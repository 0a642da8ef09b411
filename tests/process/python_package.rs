//! The simulator for Python: `pip` builds and installs the package, its own tests pass.

use angara_tests::{Test, python, tools};
use std::time::Duration;

/// A build of the interface to Python, on a machine that does much else.
const BUILD: Duration = Duration::from_secs(900);
/// Simulations with the checks of a debug build.
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn the_package_is_installed_and_passes_its_tests() {
    let Some(venv) = python::wheels("python-package", &["maturin>=1.7,<2", "numpy", "pytest"]) else { return };
    let test = Test::new("python-package");
    let folder = tools::root().join("python");
    let bin = venv.join("bin");
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin.clone()).chain(std::env::split_paths(&inherited)));
    let path = path.expect("a search path");
    // The crates are those that were built already, and nothing else is downloaded.
    let mut install = test.command(bin.join("pip"));
    install.args(["install", "--quiet", "--no-build-isolation", "--no-deps", "--force-reinstall"]).arg(&folder);
    let (built, target) = (tools::profile_dir().file_name(), tools::profile_dir().parent());
    let profile = built.and_then(|name| name.to_str()).filter(|name| *name != "debug").unwrap_or("dev");
    install.env("PATH", &path).env("MATURIN_PEP517_ARGS", format!("--profile {profile}"));
    install.env("CARGO_TARGET_DIR", target.expect("a profile lies in the target directory"));
    test.spawn(install).wait(BUILD).success();
    // What is imported is what was installed: the folder of the package is not the present one.
    let mut pytest = test.command(bin.join("python"));
    pytest.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    pytest.arg(folder.join("tests"));
    let done = test.spawn(pytest).wait(LIMIT).success();
    assert!(done.stdout.contains(" passed"), "{done}");
    test.assert_clean();
}
