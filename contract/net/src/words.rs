//! Values that a user chooses by a word, such as `--clock virtual`.
//!
//! [`words!`](crate::words!) declares an enum with its words. What reads them (command lines, files) and what lists them
//! (help, completions) then need not know the values.

/// A value that a user chooses by a word.
pub trait Word: Copy + Eq + Send + Sync + 'static {
    /// All values, each with its word and a line about it, which may end in a full stop.
    const WORDS: &'static [(Self, &'static str, &'static str)];

    /// Returns the value's own word.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(value, ..)| *value == self).map_or("", |(_, word, _)| word)
    }

    /// Returns the value that `word` stands for.
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, known, _)| *known == word).map(|(value, ..)| *value)
    }
}

/// Declares an enum whose values users choose by words. The line about a value is its documentation. The enum is [`Word`],
/// and is printed and parsed as its words; an error of parsing lists them.
///
/// ```
/// angara_net::words! {
///     /// How fast.
///     #[derive(Debug)]
///     pub enum Speed {
///         /// As fast as can be.
///         Full = "full",
///         /// Half of that.
///         Half = "half",
///     }
/// }
/// assert_eq!("half".parse(), Ok(Speed::Half));
/// assert_eq!("slow".parse::<Speed>(), Err("`slow`: give full or half".to_string()));
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[doc = $about:literal])+ $value:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[doc = $about])+ $value,)+
        }

        impl $crate::words::Word for $name {
            const WORDS: &'static [(Self, &'static str, &'static str)] =
                &[$(($name::$value, $word, concat!($($about),+)),)+];
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str($crate::words::Word::word(*self))
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<$name, String> {
                $crate::words::read(text)
            }
        }
    };
}

/// Reads a value.
///
/// # Errors
/// There is no such word; the text lists those that there are.
pub fn read<T: Word>(text: &str) -> Result<T, String> {
    T::of_word(text).ok_or_else(|| {
        let words: Vec<&str> = T::WORDS.iter().map(|(_, word, _)| *word).collect();
        let (last, others) = words.split_last().expect("an enum has values");
        match others {
            [] => format!("`{text}`: give {last}"),
            _ => format!("`{text}`: give {} or {last}", others.join(", ")),
        }
    })
}
