//! Typographic quotes in source code, as word processors and some models write them.
//!
//! Code that parses is never changed: the quotes may be meant. So the interpreter itself is asked,
//! inside a sandbox, whether the source is syntax, and only when it is not, and the repaired one is,
//! the repaired one runs.

/// Exit status of [`CHECK`] when only the repaired source is syntax.
pub(crate) const REPAIRED_PARSES: i32 = 91;

/// Reads both sources from standard input and answers by its exit status.
pub(crate) const CHECK: &str = r#"
import sys

def parses(source):
    try:
        compile(source, "script.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True

written, repaired = sys.stdin.buffer.read().split(b"\0")
sys.exit(0 if parses(written) else 91 if parses(repaired) else 92)
"#;

/// The source with plain quotes, if it has others.
pub(crate) fn repair(source: &str) -> Option<String> {
    source
        .contains(|character| plain(character).is_some())
        .then(|| source.chars().map(|character| plain(character).unwrap_or(character)).collect())
}

/// What [`CHECK`] reads. Neither source has a NUL: that was checked before.
pub(crate) fn question(source: &str, repaired: &str) -> Vec<u8> {
    [source.as_bytes(), repaired.as_bytes()].join(&0)
}

fn plain(character: char) -> Option<char> {
    match character {
        '“' | '”' | '„' | '‟' => Some('"'),
        '‘' | '’' | '‚' | '‛' => Some('\''),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    use super::*;

    /// What the check says of a source, run on the host: the source is ours.
    fn status(source: &str, repaired: &str) -> Option<i32> {
        #[expect(clippy::disallowed_methods, reason = "the source is ours")]
        let mut child = Command::new("python3")
            .args(["-I", "-S", "-c", CHECK])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&question(source, repaired)).unwrap();
        drop(input);
        child.wait().unwrap().code()
    }

    #[test]
    fn all_eight_quotes_are_repaired_and_nothing_else() {
        assert_eq!(repair("“a” „b‟ ‘c’ ‚d‛ «e»").as_deref(), Some("\"a\" \"b\" 'c' 'd' «e»"));
        assert_eq!(repair("print(\"plain\")"), None);
    }

    #[test]
    fn the_check_tells_code_that_parses_from_code_that_only_parses_repaired() {
        let checked = |source: &str| status(source, &repair(source).unwrap());
        assert_eq!(checked("print(“hello”)"), Some(REPAIRED_PARSES));
        assert_eq!(checked("print('it’s')"), Some(0));
        assert_eq!(checked("print(“hello”"), Some(92));
        assert_eq!(checked("if True:\nprint(“x”)"), Some(92));
    }
}
