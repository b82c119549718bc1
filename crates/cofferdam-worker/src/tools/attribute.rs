//! `executor.get_attribute_payload`: a fixed list of values, for programs that drive the tools.

use cofferdam_policy::{Dimension, Profile, profile::NetworkMode};
use cofferdam_protocol::{ErrorCode, Failure};
use serde_json::{Map, Value, json};

use crate::sessions::LastRun;

/// The names that there are.
const NAMES: [&str; 6] =
    ["last_stdout", "last_stderr", "last_returncode", "sandbox", "limits", "capabilities"];

/// What the values are made of.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    /// The session's last finished run.
    pub(crate) last: Option<LastRun>,
    /// The profile of the session's calls.
    pub(crate) profile: &'a Profile,
    /// Its generation.
    pub(crate) generation: u64,
    /// Names of the tools.
    pub(crate) tools: &'a [&'static str],
    /// Names of the profiles.
    pub(crate) profiles: Vec<&'a str>,
}

/// The value of that name, in the plain form `{"result": value}`.
///
/// # Errors
/// `unknown_attribute` for every name that is not on the list.
pub(crate) fn value(name: &str, facts: &Facts<'_>) -> Result<Value, Failure> {
    let last = |value: fn(&LastRun) -> &Value| facts.last.as_ref().map(value).cloned();
    let value = match name {
        "last_stdout" => last(|run| &run.stdout).unwrap_or_default(),
        "last_stderr" => last(|run| &run.stderr).unwrap_or_default(),
        "last_returncode" => last(|run| &run.returncode).unwrap_or_default(),
        "sandbox" => sandbox(facts, last(|run| &run.sandbox).unwrap_or_default()),
        "limits" => limits(facts.profile),
        "capabilities" => json!({
            "tools": facts.tools,
            "profiles": facts.profiles,
            "backends": backends(facts.profile),
        }),
        _ => {
            let shown: String = name.chars().take(60).flat_map(char::escape_debug).collect();
            let message = format!("Unknown attribute '{shown}'.");
            return Err(Failure::new(ErrorCode::UnknownAttribute, message)
                .with_hint(format!("the attributes are {}", NAMES.join(", "))));
        }
    };
    Ok(json!({ "result": value }))
}

/// What runs of this session are held by: what is required, and what the last one had.
fn sandbox(facts: &Facts<'_>, last: Value) -> Value {
    let profile = facts.profile;
    let required: Map<String, Value> = Dimension::ALL
        .into_iter()
        .map(|dimension| {
            (dimension.as_str().to_owned(), profile.require.get(dimension).as_str().into())
        })
        .collect();
    let network = match profile.network.mode {
        NetworkMode::None => "none",
        NetworkMode::Allowlist => "allowlist",
        NetworkMode::Full => "full",
    };
    json!({
        "profile": profile.name,
        "profile_generation": facts.generation,
        "backends": backends(profile),
        "require": required,
        "network": network,
        "last_run": last,
    })
}

fn limits(profile: &Profile) -> Value {
    let limits = &profile.limits;
    json!({
        "timeout_s": limits.timeout.as_secs_f64(),
        "timeout_max_s": limits.timeout_max.as_secs_f64(),
        "memory_mib": limits.memory_mib,
        "pids": limits.pids,
        "cpus": limits.cpus,
        "file_size_mib": limits.file_size_mib,
        "open_files": limits.open_files,
        "output_kib": limits.output_kib,
        "output_file_mib": limits.output_file_mib,
        "disk_mib": limits.disk_mib,
    })
}

fn backends(profile: &Profile) -> Vec<&'static str> {
    profile.backends.iter().map(|backend| backend.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::profiles;

    fn get(name: &str, last: Option<LastRun>) -> Result<Value, Failure> {
        let profiles = profiles();
        let facts = Facts {
            last,
            profile: profiles.get("default").unwrap(),
            generation: 3,
            tools: &["a.b"],
            profiles: vec!["default"],
        };
        value(name, &facts)
    }

    #[test]
    fn before_any_run_the_last_values_are_null() {
        for name in ["last_stdout", "last_stderr", "last_returncode"] {
            assert_eq!(get(name, None).unwrap(), json!({ "result": null }), "{name}");
        }
    }

    #[test]
    fn after_a_run_they_are_what_was_shown() {
        let last = LastRun {
            stdout: json!("out.png"),
            stderr: json!("err"),
            returncode: json!(-9),
            sandbox: json!({ "backend": "bubblewrap" }),
        };
        let get = |name| get(name, Some(last.clone())).unwrap();
        assert_eq!(get("last_stdout"), json!({ "result": "out.png" }));
        assert_eq!(get("last_stderr"), json!({ "result": "err" }));
        assert_eq!(get("last_returncode"), json!({ "result": -9 }));
        assert_eq!(get("sandbox")["result"]["last_run"], json!({ "backend": "bubblewrap" }));
    }

    #[test]
    fn every_name_on_the_list_has_a_value() {
        for name in NAMES {
            let value = get(name, None).unwrap();
            assert_eq!(value.as_object().unwrap().len(), 1, "{name}");
        }
        assert_eq!(get("limits", None).unwrap()["result"]["timeout_s"], 60.0);
        assert_eq!(get("sandbox", None).unwrap()["result"]["require"]["files"], "full");
    }

    #[test]
    fn private_and_unknown_names_are_refused() {
        for name in ["x", "__dict__", "_queue", "file:/etc/passwd", ""] {
            let failure = get(name, None).unwrap_err();
            assert_eq!(failure.code, ErrorCode::UnknownAttribute);
            assert_eq!(failure.message, format!("Unknown attribute '{name}'."));
        }
    }
}
