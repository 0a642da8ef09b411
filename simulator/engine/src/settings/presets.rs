//! Networks that exist or that others have simulated, ready to run.

use super::Keys;
use crate::Error;
use crate::workload::TRAFFIC_KEYS;

/// A named set of settings.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the preset.
    pub about: &'static str,
    /// The settings, as in a file.
    pub toml: &'static str,
}

/// Every preset.
pub const PRESETS: [Preset; 18] = [
    Preset {
        name: "desmos",
        about: "Desmos: 32 nodes, Angara 4x2x2x2 (paper 002, section 3)",
        toml: "topology = \"torus:4x2x2x2\"\nrouter = \"angara\"\nlength = 18\nload = 0.1\n",
    },
    Preset {
        name: "angara-k1",
        about: "Angara-K1: 36 nodes, 3x3x4 (paper 002, section 3)",
        toml: "topology = \"torus:3x3x4\"\nrouter = \"angara\"\nlength = 18\nload = 0.1\n",
    },
    Preset {
        name: "angara-8x8x8",
        about: "512 Angara nodes, full packets",
        toml: "topology = \"torus:8x8x8\"\nrouter = \"angara\"\nlength = 18\nload = 0.3\n",
    },
    Preset {
        name: "angara-2k",
        about: "2048 Angara nodes, 8x8x8x4: the size of the SpMV comparison (paper 000, section 3.2)",
        toml: "topology = \"torus:8x8x8x4\"\nrouter = \"angara\"\nlength = 18\nload = 0.1\n",
    },
    Preset {
        name: "angara-8k",
        about: "8192 Angara nodes, 8x8x8x16: the size of the broadcast comparison (paper 000, section 3.1)",
        toml: "topology = \"torus:8x8x8x16\"\nrouter = \"angara\"\nlength = 18\nload = 0.05\n",
    },
    Preset {
        name: "all-to-all-desmos",
        about: "Every Desmos node sends 4 KiB to every other one",
        toml: "topology = \"torus:4x2x2x2\"\nrouter = \"angara\"\nworkload = \"all-to-all:4096\"\n",
    },
    Preset {
        name: "angara-32k",
        about: "The largest Angara: 32768 nodes, 16x16x16x8, lightly loaded",
        toml: "topology = \"torus:16x16x16x8\"\nrouter = \"angara\"\nlength = 18\nload = 0.05\n",
    },
    Preset {
        name: "bluegene-q",
        about: "512 nodes of Blue Gene/Q: five rings, links of 2 GB/s, 40 ns a hop (Chen et al., IEEE Micro 32, 2012); routers are Angara's, times at the ends ours",
        toml: "topology = \"torus:4x4x4x4x2\"\nrouter = \"angara\"\nset = [\"hop=40ns,flight=8ns,link=2GB/s,core=4GB/s,ports=4\"]\nlength = 18\nload = 0.1\n",
    },
    Preset {
        name: "tofu-d",
        about: "768 nodes like Fugaku's: a product of six rings, links and ports of 6.8 GB/s, a put in 0.49 us (Ajima et al., CLUSTER 2018); routers are Angara's; two cables in sides of 2, four ports of six, and how 0.49 us are shared are ours",
        toml: "topology = \"torus:4x4x4x2x3x2\"\nrouter = \"angara\"\nset = [\"hop=100ns,flight=20ns,link=6.8GB/s,core=7.5GB/s,port-rate=6.8GB/s,ports=4,injection=195ns,ejection=195ns\"]\nlength = 18\nload = 0.1\n",
    },
    Preset {
        name: "slingshot",
        about: "A dragonfly of 1,056 nodes with links of 25 GB/s and 350 ns a switch (De Sensi et al., SC 2020); flits of 64 bytes, all other sizes and cables are ours",
        toml: "topology = \"dragonfly:4,137,176\"\nrouter = \"generic\"\nrouting = \"ugal\"\nvcs = 3\nbuffer = 512\ncycle-ns = 2.56\nlength = 4\nload = 0.1\n",
    },
    Preset {
        name: "booksim-torus",
        about: "8-ary 3-cube as BookSim 2 has it: 4 channels of 8 flits, dateline, single flits",
        toml: "topology = \"torus:8x8x8\"\nrouter = \"generic\"\nvcs = 4\nbuffer = 8\ndeadlock = \"dateline\"\nlength = 1\nload = 0.3\n",
    },
    Preset {
        name: "booksim-torus-vct",
        about: "The same with 16-flit packets, buffers of 64 flits and virtual cut-through",
        toml: "topology = \"torus:8x8x8\"\nrouter = \"generic\"\nvcs = 4\nbuffer = 64\ndeadlock = \"dateline\"\nlength = 16\nload = 0.3\n",
    },
    Preset {
        name: "booksim-fat-tree",
        about: "8-ary 3-tree as BookSim 2 has it: nearest common ancestor, random up",
        toml: "topology = \"fat-tree:8,3\"\nrouter = \"generic\"\nvcs = 4\nbuffer = 8\nlength = 1\nload = 0.3\n",
    },
    Preset {
        name: "fft-4096",
        about: "First exchange of a 3D FFT on 4096 nodes, 32-flit messages, Poisson (paper 004)",
        toml: "topology = \"torus:16x16x16\"\nrouter = \"generic\"\nvcs = 4\nbuffer = 64\nlength = 32\nload = 0.1\npattern = \"fftrow:64\"\nprocess = \"poisson\"\n",
    },
    Preset {
        name: "fft-4096-tree",
        about: "The same exchange in a fat tree of 4096 nodes (paper 004)",
        toml: "topology = \"fat-tree:16,3\"\nrouter = \"generic\"\nvcs = 4\nbuffer = 64\nlength = 32\nload = 0.1\npattern = \"fftrow:64\"\nprocess = \"poisson\"\n",
    },
    Preset {
        name: "hotspot-512",
        about: "512 nodes, 30 % of all 8-flit messages go to one node, Poisson (paper 004)",
        toml: "topology = \"torus:8x8x8\"\nrouter = \"generic\"\nvcs = 4\nbuffer = 8\nlength = 8\nload = 0.005\npattern = \"hotspot:219,0.3\"\nprocess = \"poisson\"\n",
    },
    Preset {
        name: "locality-512",
        about: "512 nodes, 60 % of all 8-flit messages stay within two hops, Poisson (paper 004)",
        toml: "topology = \"torus:8x8x8\"\nrouter = \"generic\"\nvcs = 4\nbuffer = 64\nlength = 8\nload = 0.3\npattern = \"local:2,0.6\"\nprocess = \"poisson\"\n",
    },
    Preset {
        name: "bimodal-512",
        about: "Fat tree of 512 nodes, one message in ten of 4 flits, the others of 32 (paper 004)",
        toml: "topology = \"fat-tree:8,3\"\nrouter = \"generic\"\nvcs = 4\nbuffer = 64\nlength = \"4:0.1,32:0.9\"\nload = 0.3\n",
    },
];

/// The settings of preset `name`.
///
/// # Errors
/// No such preset.
pub fn find(name: &str) -> Result<Keys, Error> {
    let names = || PRESETS.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
    let preset = PRESETS.iter().find(|p| p.name == name);
    let preset = preset.ok_or_else(|| Error::invalid("--preset", name, format!("there are {}", names())))?;
    Ok(toml::from_str(preset.toml).expect("presets are checked by a test"))
}

/// The settings `given`, and those of preset `name` where none is given.
///
/// # Errors
/// No such preset.
pub fn under(given: Keys, name: &str) -> Result<Keys, Error> {
    Ok(over(given, find(name)?))
}

/// The settings `given`, and those of `base` where none is given, without those that what is given has no use for.
pub fn over(given: Keys, mut base: Keys) -> Keys {
    if let Some(chosen) = &given.workload {
        // Traffic that nobody asked for is not the user's mistake.
        let unread = TRAFFIC_KEYS.into_iter().filter(|key| !chosen.workload.keys().contains(key));
        base = unread.fold(base, Keys::without);
    }
    if given.find_saturation.is_some() {
        base.load = None;
    }
    given.over(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_valid_experiment() {
        for preset in PRESETS {
            find(preset.name).unwrap().resolve().map_err(|(e, key)| format!("{}: {key}: {e}", preset.name)).unwrap();
        }
    }

    #[test]
    fn what_is_given_needs_no_settings_of_a_preset() {
        let given = Keys { find_saturation: Some(0.1), ..Keys::default() };
        under(given, "booksim-torus").unwrap().resolve().map_err(|(e, key)| format!("{key}: {e}")).unwrap();
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_known_ones() {
        assert!(find("desmo").unwrap_err().to_string().contains("desmos, angara-k1"));
    }
}
