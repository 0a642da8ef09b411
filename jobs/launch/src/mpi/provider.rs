//! The provider of libfabric that carries MPI over the emulated network, and how a library is told to use it.

use super::library::LibraryKind;
use angara_control::error::Failed;
use angara_control::install;
use std::ffi::OsString;
use std::path::PathBuf;

/// Its name in libfabric.
const NAME: &str = "angara";
/// Names the provider to libfabric.
const ENV_PROVIDER: &str = "FI_PROVIDER";
/// Directories in which libfabric looks for providers, separated by colons.
const ENV_PATH: &str = "FI_PROVIDER_PATH";

/// Where the provider lies.
pub fn directory() -> Option<PathBuf> {
    install::provider_dir(&install::bin_dir().ok()?)
}

/// Variables that lead an MPI library to the provider in `directory`, or to the one that the user has named; those that the
/// user has set, which `given` looks up, are left alone.
pub fn variables(directory: Option<PathBuf>, given: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    // Ranks are bound to cores as all PEs are; by itself each would take those of its node for its own.
    let mut all = vec![("I_MPI_PIN", OsString::from("0"))];
    let named = given(ENV_PROVIDER);
    let ours = directory.filter(|_| named.as_ref().is_none_or(|name| name == NAME));
    if named.is_some() || ours.is_some() {
        // MPICH prefers UCX, which knows nothing of providers.
        all.push(("MPIR_CVAR_CH4_NETMOD", "ofi".into()));
    }
    let before = given(ENV_PATH).filter(|before| !before.is_empty());
    let path = ours.as_ref().map(|ours| {
        let mut path = ours.clone().into_os_string();
        if let Some(before) = &before {
            path.push(":");
            path.push(before);
        }
        path
    });
    all.retain(|(name, _)| given(name).is_none());
    // What the user has there is searched, too.
    all.extend(path.map(|path| (ENV_PATH, path)));
    if ours.is_some() {
        let names = [ENV_PROVIDER, "I_MPI_OFI_PROVIDER", "OMPI_MCA_mtl_ofi_provider_include"].map(|name| (name, NAME));
        // Debian's Open MPI is told by a file of its own to leave libfabric alone.
        let ways = [("OMPI_MCA_pml", "cm"), ("OMPI_MCA_mtl", "ofi")];
        let ours = names.into_iter().chain(ways).filter(|(name, _)| given(name).is_none());
        all.extend(ours.map(|(name, value)| (name, OsString::from(value))));
    }
    all.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// On another host than that of the launcher: leads a library that is told to use our provider to the one of this host, if
/// `variables` name no directory that has it here.
pub fn find_here(variables: &mut [(OsString, OsString)]) {
    let ours = variables.iter().any(|(name, value)| name == ENV_PROVIDER && value == NAME);
    let (Some((_, path)), Some(own)) = (variables.iter_mut().find(|(name, _)| name == ENV_PATH), directory()) else {
        return;
    };
    if ours && !std::env::split_paths(path).any(|directory| directory.join(install::PROVIDER).exists()) {
        let before = std::mem::replace(path, own.into_os_string());
        path.push(":");
        path.push(before);
    }
}

/// Tells whether the user has named another provider.
pub fn is_another(given: impl Fn(&str) -> Option<OsString>) -> bool {
    given(ENV_PROVIDER).is_some_and(|name| name != NAME)
}

/// Fails where messages of an MPI program could not go over the network because the provider is not there.
pub fn check(kind: LibraryKind) -> Result<(), Failed> {
    if directory().is_some() {
        return Ok(());
    }
    let hint = install::bin_dir().map_or_else(|e| e.remedy, |bin| install::build_hint(&bin));
    Err(Failed::runtime(
        format!(
            "no {} in lib/libfabric beside this program, by which alone {kind} reaches the emulated network",
            install::PROVIDER
        ),
        hint,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(directory: Option<&str>, user: &[(&str, &str)]) -> String {
        let given = |name: &str| user.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        let all = variables(directory.map(PathBuf::from), given);
        all.iter().map(|(n, v)| format!("{}={} ", n.display(), v.display())).collect()
    }

    #[test]
    fn the_provider_is_named_to_every_library() {
        let all = with(Some("/a/lib/libfabric"), &[]);
        for one in [
            "FI_PROVIDER=angara ",
            "FI_PROVIDER_PATH=/a/lib/libfabric ",
            "MPIR_CVAR_CH4_NETMOD=ofi ",
            "I_MPI_OFI_PROVIDER=angara ",
            "OMPI_MCA_pml=cm ",
            "OMPI_MCA_mtl=ofi ",
        ] {
            assert!(all.contains(one), "{one}: {all}");
        }
    }

    #[test]
    fn what_the_user_has_set_stays() {
        let all = with(Some("/a"), &[("FI_PROVIDER", "tcp"), ("FI_PROVIDER_PATH", "/b"), ("I_MPI_PIN", "1")]);
        assert_eq!(all, "MPIR_CVAR_CH4_NETMOD=ofi ");
        let all = with(Some("/a"), &[("FI_PROVIDER_PATH", "/b"), ("OMPI_MCA_pml", "ob1")]);
        assert!(all.contains("FI_PROVIDER_PATH=/a:/b ") && !all.contains("OMPI_MCA_pml="), "{all}");
        let all = with(Some("/a"), &[("FI_PROVIDER", "angara")]);
        assert!(all.contains("FI_PROVIDER_PATH=/a ") && all.split(' ').all(|one| one != "FI_PROVIDER=angara"), "{all}");
        assert_eq!(with(None, &[]), "I_MPI_PIN=0 ");
    }
}
