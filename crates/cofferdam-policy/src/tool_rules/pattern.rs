//! Shell-style patterns over whole names, as Python's `fnmatch.fnmatchcase` reads them.
//!
//! EvoFabric's rules are read so, and a rule that is carried over must mean the same: `*` crosses
//! dots and slashes, nothing is escaped by a backslash, braces are ordinary characters. The glob
//! libraries differ in one or the other. `tests/mcp/test_tool_control.py` holds this against the
//! original.

use std::{fmt, str::FromStr};

use crate::document::shown;

/// The longest pattern, in bytes. Names have at most 128 characters.
const MOST_BYTES: usize = 1024;

/// A pattern, ready to be asked. Case-sensitive, and always about the whole name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPattern {
    text: String,
    parts: Vec<Part>,
}

/// Why a text is no pattern, as the end of a sentence that begins with what holds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// There is nothing.
    #[error("must be a glob over tool names, not an empty string")]
    Empty,
    /// It is longer than any sensible one.
    #[error("must be a glob of at most {MOST_BYTES} bytes, not of {0}")]
    TooLong(usize),
    /// A `[` without its `]`. Python takes it for an ordinary character, which no name of a tool
    /// has: such a rule would never match, and silently.
    #[error("must be a glob, not `{}`: unclosed character class; missing ']'", shown(.0))]
    Unclosed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    Any,
    Many,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl FromStr for ToolPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > MOST_BYTES {
            return Err(PatternError::TooLong(text.len()));
        }
        let characters: Vec<char> = text.chars().collect();
        let mut parts = Vec::new();
        let mut rest = characters.as_slice();
        while let [first, after @ ..] = rest {
            rest = after;
            match first {
                '*' if parts.last() == Some(&Part::Many) => {}
                '*' => parts.push(Part::Many),
                '?' => parts.push(Part::Any),
                '[' => {
                    let length = class_length(rest)
                        .ok_or_else(|| PatternError::Unclosed(text.to_owned()))?;
                    parts.push(class(&rest[..length]));
                    rest = &rest[length + 1..];
                }
                other => parts.push(Part::One(*other)),
            }
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ToolPattern {
    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern is about that name. Takes at most as many steps as both are long,
    /// multiplied.
    pub fn matches(&self, name: &str) -> bool {
        let mut part = 0;
        let mut here = name.chars();
        // Where to go on with the newest `*` taking one more character. Older ones need not be
        // tried again: what they could still give, the newest can.
        let mut again: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            if self.parts.get(part) == Some(&Part::Many) {
                part += 1;
                again = Some((part, here.clone()));
                continue;
            }
            let matched = match (self.parts.get(part), here.next()) {
                (None, None) => return true,
                (Some(part), Some(character)) => part.matches(character),
                (Some(_), None) => return false,
                (None, Some(_)) => false,
            };
            if matched {
                part += 1;
                continue;
            }
            let Some((after_star, from)) = &mut again else { return false };
            if from.next().is_none() {
                return false;
            }
            part = *after_star;
            here = from.clone();
        }
    }
}

impl Part {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::One(one) => *one == character,
            Self::Any | Self::Many => true,
            Self::Class { negated, ranges } => {
                let within = ranges.iter().any(|(from, to)| (*from..=*to).contains(&character));
                within != *negated
            }
        }
    }
}

/// How many characters stand between `[` and its `]`, which cannot be the first one.
fn class_length(after: &[char]) -> Option<usize> {
    let negation = usize::from(after.first() == Some(&'!'));
    let first = negation + usize::from(after.get(negation) == Some(&']'));
    let end = after.get(first..)?.iter().position(|character| *character == ']')?;
    Some(first + end)
}

/// What stands between the brackets, by the steps of `fnmatch.translate`.
fn class(inside: &[char]) -> Part {
    let mut chunks = chunks(inside);
    // A range that is upside down is empty; its two ends go.
    for index in (1..chunks.len()).rev() {
        if chunks[index - 1].last() > chunks[index].first() {
            let tail = chunks.remove(index);
            chunks[index - 1].pop();
            chunks[index - 1].extend(tail.into_iter().skip(1));
        }
    }
    let negated = chunks[0].first() == Some(&'!');
    if negated {
        chunks[0].remove(0);
    }
    let mut ranges = Vec::new();
    for (index, chunk) in chunks.iter().enumerate() {
        ranges.extend(chunk.iter().map(|character| (*character, *character)));
        if let (Some(from), Some(to)) =
            (chunk.last(), chunks.get(index + 1).and_then(|c| c.first()))
        {
            ranges.push((*from, *to));
        }
    }
    Part::Class { negated, ranges }
}

/// The characters, parted at each `-` that stands for a range. At least one chunk.
fn chunks(inside: &[char]) -> Vec<Vec<char>> {
    let mut chunks = Vec::new();
    let mut begin = 0;
    let mut look = 1 + usize::from(inside.first() == Some(&'!'));
    while let Some(found) =
        inside.get(look..).and_then(|rest| rest.iter().position(|character| *character == '-'))
    {
        let hyphen = look + found;
        chunks.push(inside[begin..hyphen].to_vec());
        begin = hyphen + 1;
        look = hyphen + 3;
    }
    let last = inside[begin..].to_vec();
    match chunks.last_mut() {
        // A hyphen at the end is one.
        Some(before) if last.is_empty() => before.push('-'),
        _ => chunks.push(last),
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern.parse::<ToolPattern>().expect(pattern).matches(name)
    }

    #[test]
    fn a_pattern_is_about_the_whole_name_and_its_case() {
        for (pattern, name, expected) in [
            ("uv_tool.uv", "uv_tool.uv", true),
            ("uv_tool", "uv_tool.uv", false),
            ("tool.uv", "uv_tool.uv", false),
            ("UV_TOOL.*", "uv_tool.uv", false),
            ("uv_tool?uv", "uv_tool.uv", true),
            ("uv_tool.??", "uv_tool.uv", true),
            ("uv_tool.???", "uv_tool.uv", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_star_crosses_dots_slashes_and_lines() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "a.b/c\nd", true),
            ("a*d", "a.b/c\nd", true),
            ("**", "a/b", true),
            ("a**b", "a/x/b", true),
            ("*a*b*", "xaxxbx", true),
            ("*a*b", "xaxxbx", false),
            ("*ab", "aab", true),
            ("*aab", "aaaab", true),
            ("a*", "", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn nothing_but_star_question_mark_and_brackets_is_special() {
        for (pattern, name, expected) in [
            ("{a,b}", "a", false),
            ("{a,b}", "{a,b}", true),
            (r"a\*", r"a\x", true),
            (r"a\*", "a*", false),
            ("a.c", "abc", false),
            ("a+", "aa", false),
            ("(a|b)", "a", false),
            ("^a$", "a", false),
            ("é?", "éß", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_class_is_read_as_python_reads_it() {
        for (pattern, name, expected) in [
            ("[abc]", "b", true),
            ("[abc]", "d", false),
            ("[a-c]", "b", true),
            ("[!a-c]", "b", false),
            ("[!a-c]", "d", true),
            ("[!a-c]", "", false),
            // Not a negation.
            ("[^a]", "^", true),
            ("[^a]", "b", false),
            // A bracket that comes first is a character.
            ("[]a]", "]", true),
            ("[!]a]", "]", false),
            ("[!]a]", "b", true),
            ("[[]", "[", true),
            // Hyphens that make no range.
            ("[-a]", "-", true),
            ("[a-]", "-", true),
            ("[a-]", "b", false),
            ("[a-c-e]", "-", true),
            ("[a-c-e]", "d", false),
            ("[--0]", ".", true),
            // Ranges that are upside down are empty.
            ("[c-a]", "b", false),
            ("[!c-a]", "b", true),
            ("[c-ax]", "x", true),
            ("[c-ax]", "c", false),
            ("[c-a!]", "b", true),
            ("[c-a!b]", "b", false),
            (r"[\]", r"\", true),
            ("[*]", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_could_never_match_a_tool_is_refused() {
        let refusal = |text: &str| text.parse::<ToolPattern>().expect_err(text).to_string();
        insta::assert_snapshot!(refusal(""), @"must be a glob over tool names, not an empty string");
        insta::assert_snapshot!(refusal("uv_tool.["), @"must be a glob, not `uv_tool.[`: unclosed character class; missing ']'");
        insta::assert_snapshot!(refusal("[]"), @"must be a glob, not `[]`: unclosed character class; missing ']'");
        insta::assert_snapshot!(refusal("[!]"), @"must be a glob, not `[!]`: unclosed character class; missing ']'");
        insta::assert_snapshot!(refusal(&"a".repeat(1025)), @"must be a glob of at most 1024 bytes, not of 1025");
    }

    #[test]
    fn a_pattern_made_to_be_slow_is_not() {
        let pattern = "*a".repeat(512);
        assert!(!matches(&pattern, &format!("{}b", "a".repeat(4_000))));
    }
}
