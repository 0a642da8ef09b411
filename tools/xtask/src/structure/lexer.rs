//! Words of Rust, as far as they tell what a file has in it: comments are left out but for documentation, and texts are one
//! token each, so that nothing in them counts as code.

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A keyword or a name, without its `r#`.
    Word,
    /// One character, or `::`.
    Sign,
    /// A text, a character or a number.
    Literal,
    Lifetime,
    /// One line of documentation, without its slashes.
    Doc,
}

/// A token, and the line it begins in, counted from 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Sign) && self.text == text
    }

    pub(crate) fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }
}

/// Tokens of a whole file.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(rest, first);
        let text = &rest[..length];
        match kind {
            Some(Kind::Word) => found.push(Token { kind: Kind::Word, text: text.trim_start_matches("r#"), line }),
            // A comment between stars has several lines.
            Some(Kind::Doc) => found.extend((line..).zip(text.lines()).map(|(line, text)| {
                let text = text.trim_start().trim_start_matches(['/', '!', '*']).trim_end_matches("*/");
                Token { kind: Kind::Doc, text, line }
            })),
            Some(kind) => found.push(Token { kind, text, line }),
            None => {}
        }
        line += text.matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// What `rest`, which begins with `first`, begins with, and its length. Nothing is a blank or a comment.
fn next(rest: &str, first: char) -> (Option<Kind>, usize) {
    if first.is_whitespace() {
        return (None, first.len_utf8());
    }
    if rest.starts_with("//") {
        let doc = rest.starts_with("//!") || rest.starts_with("///") && !rest.starts_with("////");
        return (doc.then_some(Kind::Doc), rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        let doc = rest.starts_with("/*!") || rest.starts_with("/**") && !rest.starts_with("/***");
        return (doc.then_some(Kind::Doc), block_comment(rest));
    }
    if let Some(length) = text(rest) {
        return (Some(Kind::Literal), length);
    }
    if first == '\'' {
        return quote(rest);
    }
    let named = |c: char| c == '_' || c.is_alphanumeric();
    if named(first) {
        let start = if rest.starts_with("r#") { 2 } else { 0 };
        let length = rest[start..].find(|c| !named(c)).map_or(rest.len(), |end| start + end);
        return (Some(if first.is_ascii_digit() { Kind::Literal } else { Kind::Word }), length);
    }
    (Some(Kind::Sign), if rest.starts_with("::") { 2 } else { first.len_utf8() })
}

/// Length of a comment between stars; these nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let step = match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a text, raw or not, of characters, bytes or for C.
fn text(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(prefix);
        after.is_some_and(|after| match prefix.ends_with('r') {
            true => after.trim_start_matches('#').starts_with('"'),
            false => after.starts_with('"'),
        })
    })?;
    let after = &rest[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = after.len() - after.trim_start_matches('#').len();
        let open = prefix.len() + hashes + 1;
        let close = format!("\"{}", &after[..hashes]);
        return Some(rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len()));
    }
    let mut escaped = false;
    let end = after[1..].find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    Some(end.map_or(rest.len(), |end| prefix.len() + end + 2))
}

/// A character between quotes, or a lifetime, which has one quote alone.
fn quote(rest: &str) -> (Option<Kind>, usize) {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            (Some(Kind::Literal), rest[after..].find('\'').map_or(rest.len(), |end| after + end + 1))
        }
        (Some(_), Some((at, '\''))) => (Some(Kind::Literal), at + 1),
        _ => {
            let end = rest[1..].find(|c: char| c != '_' && !c.is_alphanumeric());
            (Some(Kind::Lifetime), end.map_or(rest.len(), |end| end + 1))
        }
    }
}

/// For each bracket that opens, where it closes; for all others their own place.
pub(crate) fn partners(tokens: &[Token]) -> Vec<usize> {
    let mut partner: Vec<usize> = (0..tokens.len()).collect();
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Sign) {
        match token.text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                if let Some(begin) = open.pop() {
                    partner[begin] = at;
                }
            }
            _ => {}
        }
    }
    partner
}

/// The tokens without what only tests compile.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let partner = partners(tokens);
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_test_only(&tokens[at..]) {
            at = item_end(tokens, &partner, at);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// `#[test]`, `#[cfg(test)]` and `#[cfg(all(test, …))]`.
fn is_test_only(tokens: &[Token]) -> bool {
    let begins = |words: &[&str]| tokens.len() >= words.len() && tokens.iter().zip(words).all(|(t, w)| t.is(w));
    begins(&["#", "[", "test", "]"])
        || begins(&["#", "[", "cfg", "(", "test", ")"])
        || begins(&["#", "[", "cfg", "(", "all", "(", "test"])
}

/// The place behind the item, field or statement whose first attribute is at `at`.
fn item_end(tokens: &[Token], partner: &[usize], mut at: usize) -> usize {
    while at < tokens.len() && (tokens[at].is("#") || tokens[at].kind == Kind::Doc) {
        at = if tokens[at].is("#") { partner[at + 1] + 1 } else { at + 1 };
    }
    const ITEMS: [&str; 13] =
        ["pub", "fn", "mod", "use", "impl", "struct", "enum", "trait", "const", "static", "type", "unsafe", "extern"];
    let is_item = tokens.get(at).is_some_and(|first| ITEMS.iter().any(|word| first.is(word)));
    let is_use = tokens[at..].iter().take(6).any(|token| token.is("use"));
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            "}" | ")" | "]" => return at,
            "{" if !is_use => return partner[at] + 1,
            _ => at = partner[at] + 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    #[test]
    fn texts_and_comments_hide_what_is_in_them() {
        assert_eq!(words("a /* { /* } */ */ b // fn\n c"), ["a", "b", "c"]);
        assert_eq!(words(r##"x("}\"", r#"a"{"#, b"{", c"}") y"##).last(), Some(&"y"));
        assert_eq!(words(r##"r#"a"{"# z"##), ["r#\"a\"{\"#", "z"]);
    }

    #[test]
    fn a_lifetime_is_no_character() {
        assert_eq!(words(r"&'a T '{' '\'' '\u{7f}' 'é'"), ["&", "'a", "T", "'{'", r"'\''", r"'\u{7f}'", "'é'"]);
        let kinds: Vec<Kind> = tokens("'static 'x'").iter().map(|token| token.kind).collect();
        assert_eq!(kinds, [Kind::Lifetime, Kind::Literal]);
    }

    #[test]
    fn lines_are_counted_within_texts() {
        let found = tokens("a\n\"b\n\n\"\n/// c\n/** d\n * e */ r#fn");
        let seen: Vec<_> = found.iter().map(|token| (token.line, token.text.trim())).collect();
        assert_eq!(seen, [(1, "a"), (2, "\"b\n\n\""), (5, "c"), (6, "d"), (7, "e"), (7, "fn")]);
    }

    #[test]
    fn what_only_tests_compile_goes() {
        let left = |source| without_tests(&tokens(source)).iter().map(|t| t.text).collect::<Vec<_>>().join(" ");
        assert_eq!(left("#[cfg(test)] mod t { fn x() {} } a"), "a");
        assert_eq!(left("#[cfg(test)] pub(crate) use x::{y, z}; a"), "a");
        assert_eq!(left("#[cfg(test)] fn f<A, B>(a: A) -> [B; 2] { } a"), "a");
        assert_eq!(left("S { #[cfg(test)] b: T, c }"), "S { c }");
        assert_eq!(left("#[cfg(not(test))] a"), "# [ cfg ( not ( test ) ) ] a");
    }
}
