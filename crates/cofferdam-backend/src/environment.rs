//! The environment of a command: nothing of the server's but what the profile names.

use std::{collections::BTreeMap, ffi::OsString, os::unix::ffi::OsStringExt};

use cofferdam_policy::Grant;

use crate::layout::{HOME, USER};

/// Where programs are looked for when the runtime adds nothing.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Builds the environment, each variable as `NAME=value`, sorted by name.
///
/// Later ones replace earlier ones: the sandbox's own, the runtime's, those passed on from
/// `outside`, those the profile sets.
pub(crate) fn build(
    grant: &Grant,
    outside: &BTreeMap<OsString, OsString>,
    terminal: bool,
) -> Vec<OsString> {
    let profile = grant.profile();
    let plan = grant.plan();
    let home = if profile.filesystem.scratch_home { HOME } else { "/tmp" };
    let mut path = OsString::new();
    for folder in &plan.runtime_path {
        path.push(folder);
        path.push(":");
    }
    path.push(PATH);

    let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
    let own = [
        ("HOME", home),
        ("LANG", "C.UTF-8"),
        ("LOGNAME", USER),
        ("SHELL", "/bin/bash"),
        ("TMPDIR", "/tmp"),
        ("USER", USER),
    ];
    variables.extend(own.map(|(name, value)| (name.into(), value.into())));
    variables.insert("PATH".into(), path);
    variables.insert("PWD".into(), plan.working_directory.clone().into());
    if terminal {
        let kind = outside.get(&OsString::from("TERM"));
        variables.insert("TERM".into(), kind.cloned().unwrap_or_else(|| "xterm".into()));
    }
    for (name, value) in &plan.runtime_environment {
        variables.insert(name.into(), value.into());
    }
    for name in &profile.environment.pass {
        let name = OsString::from(name);
        if let Some(value) = outside.get(&name) {
            variables.insert(name, value.clone());
        }
    }
    for (name, value) in &profile.environment.set {
        variables.insert(name.into(), value.into());
    }
    variables
        .into_iter()
        .map(|(name, value)| {
            let mut variable = name.into_vec();
            variable.push(b'=');
            variable.extend(value.into_vec());
            OsString::from_vec(variable)
        })
        .collect()
}
