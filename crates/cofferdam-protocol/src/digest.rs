//! Digests of arguments, the same wherever they are worked out: what a person is shown, what the audit
//! log holds and what anybody computes from the arguments themselves.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// sha256 of a value as canonical JSON (RFC 8785: no spaces, keys in order, numbers as JavaScript
/// writes them), in hexadecimal.
///
/// # Errors
/// When it has no form in JSON: numbers that are not finite, keys that are no strings.
pub fn of(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let written = serde_json_canonicalizer::to_vec(value)?;
    Ok(Sha256::digest(written).iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::ToolCall;

    #[test]
    fn the_digest_is_that_of_canonical_json() {
        // printf '{"a":[1,2.5,1e+30,"\\u001b€"],"b":null}' | sha256sum
        let digest = "8322c2024f1b2c586126046c46fec97dc1ba1f92ee950385ab91ce3296c64e7c";
        assert_eq!(of(&json!({ "b": null, "a": [1.0, 2.5, 1e30, "\u{1b}€"] })).unwrap(), digest);
        assert_eq!(of(&json!({ "a": [1, 2.50, 1e30, "\u{1b}€"], "b": null })).unwrap(), digest);
    }

    #[test]
    fn what_has_no_form_in_json_has_no_digest() {
        assert!(of(&f64::NAN).is_err());
    }

    #[test]
    fn arguments_that_mean_the_same_have_the_same_digest() {
        let digest = |arguments: Value| {
            let Value::Object(arguments) = arguments else { panic!("{arguments}") };
            let call = ToolCall::parse("bash_coding_tool.execute", arguments).unwrap();
            call.digest().unwrap()
        };
        let plain = digest(json!({ "code": "true", "timeout": 5 }));
        assert_eq!(plain, digest(json!({ "timeout": "5", "code": "true", "cwd": null })));
        assert_ne!(plain, digest(json!({ "code": "true", "timeout": 6 })));
        assert_ne!(plain, digest(json!({ "code": "true\n", "timeout": 5 })));
    }
}
