//! What is counted in one file: functions, comments, blocks of `unsafe`.

use super::lexer::{Kind, Token, partners};

/// A function with a body.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// From `fn` to its last brace.
    pub(crate) lines: usize,
}

/// All functions, those in macros and within others, too.
pub(crate) fn functions(tokens: &[Token]) -> Vec<Function> {
    let partner = partners(tokens);
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is("fn")) {
        // A type of functions has no name.
        let name = match (tokens.get(at + 1), tokens.get(at + 2)) {
            (Some(sign), Some(name)) if sign.is("$") => format!("${}", name.text),
            (Some(name), _) if name.is_word() => name.text.to_string(),
            _ => continue,
        };
        if let Some(body) = body(tokens, &partner, at + 1) {
            let lines = tokens[partner[body]].line - token.line + 1;
            found.push(Function { name, line: token.line, lines });
        }
    }
    found
}

/// Where the braces of the function open whose name is at `at`.
fn body(tokens: &[Token], partner: &[usize], mut at: usize) -> Option<usize> {
    while at < tokens.len() {
        match tokens[at].text {
            "{" => return Some(at),
            ";" | "}" | ")" | "]" => return None,
            // Past what is between round or square brackets.
            _ => at = partner[at] + 1,
        }
    }
    None
}

/// Comments of documentation: first line and text.
pub(crate) fn comments(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for token in tokens.iter().filter(|token| token.kind == Kind::Doc) {
        match found.last_mut() {
            Some((_, text)) if token.line == last + 1 => *text = format!("{text} {}", token.text.trim()),
            _ => found.push((token.line, token.text.trim().to_string())),
        }
        last = token.line;
    }
    found
}

/// Lines in which a block of `unsafe` begins.
pub(crate) fn unsafe_blocks(tokens: &[Token]) -> Vec<usize> {
    let blocks = tokens.windows(2).filter(|pair| pair[0].is("unsafe") && pair[1].is("{"));
    blocks.map(|pair| pair[0].line).collect()
}

/// True if the file says `#![forbid(unsafe_code)]`.
pub(crate) fn forbids_unsafe(tokens: &[Token]) -> bool {
    const SAID: [&str; 8] = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    tokens.windows(SAID.len()).any(|window| window.iter().zip(SAID).all(|(token, word)| token.is(word)))
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::*;

    #[test]
    fn functions_are_found_with_their_lengths() {
        let source = "trait T { fn a(&self); }\nfn b(f: fn(u8) -> u8) -> [u8; 2]\nwhere X: Y {\n  fn c() {}\n}\n\
                      macro_rules! m { ($n:ident) => { fn $n() {\n} }; }";
        let found: Vec<_> = functions(&tokens(source)).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("b".into(), 2, 4), ("c".into(), 4, 1), ("$n".into(), 6, 2)]);
    }

    #[test]
    fn comments_are_whole() {
        let source = "//! A file\n\n/// One\n/// two.\nfn a() {}\n// No.\n/// Three\nstruct S;";
        let found = comments(&tokens(source));
        assert_eq!(found, [(1, "A file".into()), (3, "One two.".into()), (7, "Three".into())]);
    }

    #[test]
    fn an_unsafe_function_is_no_block() {
        assert_eq!(unsafe_blocks(&tokens("unsafe fn f() {\n unsafe { g() }\n}\n// unsafe {\n")), [2]);
        assert!(forbids_unsafe(&tokens("//! A.\n#![forbid(unsafe_code)]\n")));
    }
}
