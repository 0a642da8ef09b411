//! Options whose values are words.

use angara_net::words::Word;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Reads an option's value by its word; help lists the words, and what each means.
pub fn word<T: Word>() -> impl TypedValueParser<Value = T> {
    let known =
        T::WORDS.iter().map(|(_, word, about)| PossibleValue::new(*word).help(about.trim().trim_end_matches('.')));
    PossibleValuesParser::new(known).map(|word| T::of_word(&word).expect("the parser takes no other"))
}
