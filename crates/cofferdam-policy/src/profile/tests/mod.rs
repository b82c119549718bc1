//! Claims about profiles.

mod each;
mod entries;
mod errors;
mod inherit;
mod meanings;
mod mutations;
mod properties;
mod schema;
mod shipped;

use super::{
    Profile, ProfileError, ProfileOrigin, ProfileSource, Profiles, parse, profile_schema, resolve,
    shipped as shipped_sources,
};

/// A file of the admin's.
fn file(name: &str, text: &str) -> ProfileSource {
    ProfileSource {
        name: name.to_owned(),
        text: text.to_owned(),
        origin: ProfileOrigin::File(format!("/etc/cofferdam/sandbox-profiles/{name}.toml").into()),
    }
}

/// A profile that stands alone, from its text.
fn resolved(text: &str) -> Result<Profile, ProfileError> {
    parse("offline", text).and_then(|raw| resolve("offline", &raw, None))
}

/// A set of the files that are given, by name.
fn profiles(files: &[(&str, &str)]) -> Result<Profiles, ProfileError> {
    Profiles::load(files.iter().map(|(name, text)| file(name, text)))
}

/// An error as the command line prints it.
fn printed(error: &ProfileError) -> String {
    let mut text = format!("error: {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!("\n  caused by: {cause}"));
        source = cause.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text
}

/// The printed error of a profile that must not be accepted.
fn refusal(text: &str) -> String {
    printed(&resolved(text).expect_err(text))
}

/// Names and texts of what is shipped.
fn shipped_texts() -> Vec<(String, String)> {
    shipped_sources().map(|source| (source.name, source.text)).collect()
}

/// The printed error of a profile with nothing but its backend above the text.
fn with(text: &str) -> String {
    refusal(&format!("backends = [\"host\"]\n{text}"))
}
