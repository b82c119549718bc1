//! Sandbox profiles: as written, and as enforced.
//!
//! [`parse`] holds a file against the schema, [`resolve`] decides every value; [`Profiles`] does
//! both for all of them. Finding and reading the files is the program's.

mod entries;
mod error;
mod parse;
mod raw;
mod resolve;
mod resolved;
mod set;
mod shipped;
#[cfg(test)]
mod tests;
mod values;

pub use error::{ProfileError, ProfileProblem};
pub use raw::RawProfile;
pub use resolved::{
    Access, ApprovalRule, ApprovalWhen, BackendKind, Confinement, Container, Environment,
    Filesystem, Host, Limits, Network, NetworkMode, PathGrant, Pool, Profile, Python, Uv,
};
pub use set::{BrokenProfile, LoadedProfile, ProfileOrigin, ProfileSource, Profiles};
pub use shipped::shipped;
pub use values::tool_glob;

use parse::schema;

/// Reads a profile as it is written, without deciding anything.
///
/// # Errors
/// [`ProfileError::Load`] for a name that no profile may have, for text that is no TOML, and for
/// the first key that is unknown, missing, of the wrong type or out of bounds.
pub fn parse(name: &str, text: &str) -> Result<RawProfile, ProfileError> {
    if !is_name(name) {
        return Err(ProfileProblem::Name(name.to_owned()).of(name));
    }
    parse::parse(text).map_err(|(first, _)| first.of(name))
}

/// As [`parse`], with all that is wrong.
fn parse_to_the_end(name: &str, text: &str) -> Result<RawProfile, Vec<ProfileError>> {
    if !is_name(name) {
        return Err(vec![ProfileProblem::Name(name.to_owned()).of(name)]);
    }
    parse::parse(text).map_err(|(first, more)| {
        std::iter::once(first).chain(more).map(|problem| problem.of(name)).collect()
    })
}

/// Decides every value of a profile; `parent` is the profile that it says it extends.
///
/// A key of the profile replaces the same key of the parent; lists are replaced whole.
/// `environment.set` is joined by name. `[approval]` is read in order, the profile's own lines
/// first. A parent that the profile does not name has no effect.
///
/// # Errors
/// [`ProfileError::Load`] for the first value that cannot be meant, and for a parent that is
/// missing or extends another profile.
pub fn resolve(
    name: &str,
    raw: &RawProfile,
    parent: Option<&RawProfile>,
) -> Result<Profile, ProfileError> {
    match resolve::resolve(name, raw, parent) {
        Ok((profile, _)) => Ok(profile),
        Err((first, _)) => Err(first.of(name)),
    }
}

/// The JSON Schema of a profile, draft 2020-12.
pub fn profile_schema() -> serde_json::Value {
    schema().clone()
}

/// Names are shown, compared, and made from file names: one plain spelling.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 64
        && name.bytes().next().is_some_and(plain)
        && name.bytes().all(|byte| plain(byte) || b"-_".contains(&byte))
}
