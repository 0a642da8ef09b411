//! The settings of a simulation as options: those that a file may have, by the same names.

use angara_cli::shared::word;
use angara_model::AnyTopology;
use angara_sim::run::router::{Deadlock, Router, Routing, Switching};
use angara_sim::settings::{Keys, keys::fraction};
use angara_sim::traffic::{Lengths, Mapping, Pattern, Probe, Process, RatesFile};
use angara_sim::{observe::Selection, workload::Chosen};
use clap::Args;

macro_rules! options {
    ($($(#[doc = $about:literal])* #[arg($($arg:tt)*)] $(#[serde($($serde:tt)*)])? $name:ident: $type:ty,)*) => {
        /// An option for each setting.
        #[derive(Args, Debug)]
        pub(crate) struct KeyArgs {
            $(
                $(#[doc = $about])*
                #[arg($($arg)*)]
                $name: Option<$type>,
            )*
        }

        impl From<KeyArgs> for Keys {
            fn from(args: KeyArgs) -> Keys {
                Keys { $($name: args.$name,)* }
            }
        }
    };
}

angara_sim::settings!(options);

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        keys: KeyArgs,
    }

    #[test]
    fn every_key_is_a_flag_of_the_same_name() {
        let command = Flags::command();
        for name in Keys::names() {
            assert!(command.get_arguments().any(|a| a.get_long() == Some(&name)), "--{name}");
        }
    }

    #[test]
    fn a_file_and_a_command_line_say_the_same() {
        let file: Keys = toml::from_str(
            "topology = \"torus:4x4\"\nrouter = \"generic\"\nlength = \"4:0.5,8:0.5\"\nload = 0.2\npattern = \
             \"hotspot:3,0.1\"\nprobe = \"0,5\"\ncycle-ns = 1.5",
        )
        .unwrap();
        let line = "x --topology torus:4x4 --router generic --length 4:0.5,8:0.5 --load 0.2 --pattern hotspot:3,0.1 \
                    --probe 0,5 --cycle-ns 1.5";
        assert_eq!(file, Flags::try_parse_from(line.split_whitespace()).unwrap().keys.into());
    }

    #[test]
    fn fractions_are_written_as_everywhere() {
        let line = "x --load 30% --precision 2000ppm --find-saturation=0.5% --pattern hotspot:3,10% --length 4:25%,8:75% \
                    --process on-off:1%,2%";
        let keys: Keys = Flags::try_parse_from(line.split_whitespace()).unwrap().keys.into();
        assert_eq!((keys.load, keys.precision, keys.find_saturation), (Some(0.3), Some(0.002), Some(0.005)));
        let file = toml::from_str::<Keys>(
            "load = \"30%\"\nprecision = 0.002\nfind-saturation = \"5000ppm\"\npattern = \"hotspot:3,0.1\"\n\
             length = \"4:0.25,8:0.75\"\nprocess = \"on-off:0.01,0.02\"",
        );
        assert_eq!(file.unwrap(), keys);
    }

    #[test]
    fn a_number_is_a_length_too() {
        assert_eq!(toml::from_str::<Keys>("length = 16").unwrap().length, Some("16".parse().unwrap()));
    }

    #[test]
    fn faults_are_a_list_in_a_file_and_repeated_on_a_command_line() {
        let file: Keys = toml::from_str("fault = [\"link 0,0 +X down\", \"node 1,1 down @2us\"]").unwrap();
        let line = ["x", "--fault", "link 0,0 +X down", "--fault", "node 1,1 down @2us"];
        assert_eq!(file, Flags::try_parse_from(line).unwrap().keys.into());
        assert_eq!(
            toml::from_str::<Keys>("fault = \"node 1,1 down\"").unwrap().fault,
            Some(vec!["node 1,1 down".into()])
        );
    }

    #[test]
    fn flags_win_over_the_file() {
        let file: Keys = toml::from_str("load = 0.2\nseed = 7").unwrap();
        let flags = Keys { load: Some(0.5), ..Keys::default() };
        let both = flags.over(file);
        assert_eq!((both.load, both.seed), (Some(0.5), Some(7)));
    }

    #[test]
    fn probes() {
        assert_eq!("1,2".parse::<Probe>().unwrap(), Probe { from: 1, to: 2, period: 1000 });
        assert!("1".parse::<Probe>().is_err() && "1,2,0".parse::<Probe>().is_err());
    }
}
