//! Numbers and text as an agent is shown them.

use std::time::Duration;

use serde_json::Value;

/// Seconds as Python prints a float: `1.0`, `0.5`, `1e-05`.
pub(crate) fn python_seconds(duration: Duration) -> String {
    let text = format!("{:?}", duration.as_secs_f64());
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

/// A measured number, with one digit after the point.
pub(crate) fn measured(number: f64) -> Value {
    Value::from((number * 10.0).round() / 10.0)
}

/// At most `most` characters of bytes that a run wrote, on one line, controls escaped.
pub(crate) fn one_line(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    let mut shown = String::new();
    let mut count = 0;
    for character in text.chars() {
        let escaped: String = if is_deceptive(character) {
            character.escape_default().collect()
        } else {
            character.into()
        };
        count += escaped.chars().count();
        if count > most {
            // Room for the mark, which counts too.
            while shown.chars().count() >= most {
                shown.pop();
            }
            shown.push('…');
            break;
        }
        shown.push_str(&escaped);
    }
    shown
}

/// Whether a character would change the lines or the order of what is shown around it, or would not be
/// seen itself.
pub(crate) fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_look_as_in_python() {
        for (seconds, expected) in [
            (1.0, "1.0"),
            (0.5, "0.5"),
            (60.0, "60.0"),
            (0.1, "0.1"),
            (1.25, "1.25"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000_012_5, "1.25e-05"),
            (900.0, "900.0"),
        ] {
            assert_eq!(python_seconds(Duration::from_secs_f64(seconds)), expected);
        }
    }

    #[test]
    fn measured_numbers_have_one_digit() {
        assert_eq!(measured(4.68).to_string(), "4.7");
        assert_eq!(measured(4.0).to_string(), "4.0");
    }

    #[test]
    fn a_line_is_bounded_and_cannot_command_a_terminal() {
        assert_eq!(one_line(b" \x1b[31mred\xff ", 200), "\\u{1b}[31mred\u{fffd}");
        let long = one_line("ä".repeat(500).as_bytes(), 200);
        assert_eq!(long.chars().count(), 200);
        assert!(long.ends_with('…'));
        assert_eq!(one_line("ä".repeat(200).as_bytes(), 200).chars().count(), 200);
        let escapes = one_line(&[0x1b; 500], 200);
        assert!(escapes.chars().count() <= 200);
    }
}
