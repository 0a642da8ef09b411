//! The package for Python: its own tests pass on the library and the commands that were built.
//!
//! `pip` would build it again, and with it all it stands on, because Cargo chooses features by what it builds. So the
//! package is put together here as `pip` installs it: its files, and the library beside them.

use angara_tests::{Test, python, tools};
use std::fs;
use std::time::Duration;

/// Simulations with the checks of a debug build.
const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn the_package_passes_its_tests() {
    let Some(venv) = python::wheels("python-package", &["numpy", "pandas", "pytest"]) else { return };
    let test = Test::new("python-package");
    let (folder, package) = (tools::root().join("simulator/python"), test.file("site/angara"));
    for below in ["", "examples"] {
        fs::create_dir_all(package.join(below)).expect("a directory");
        for file in fs::read_dir(folder.join("angara").join(below)).expect("a directory").flatten() {
            if file.file_type().is_ok_and(|kind| kind.is_file()) {
                fs::copy(file.path(), package.join(below).join(file.file_name())).expect("copied");
            }
        }
    }
    fs::copy(tools::tool("libangara_python.so"), package.join("_angara.abi3.so")).expect("copied");
    let mut pytest = test.command(venv.join("bin/python"));
    pytest.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(folder.join("tests"));
    pytest.arg("--basetemp").arg(test.file("pytest"));
    pytest.env("PYTHONPATH", test.file("site")).env("ANGARA", tools::tool("angara"));
    let done = test.spawn(pytest).wait(LIMIT).success();
    assert!(done.stdout.contains(" passed"), "{done}");
    test.assert_clean();
}
